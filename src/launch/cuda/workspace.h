/*!
 * \file launch/cuda/workspace.h
 * \brief Memory in which the blocks of one launch add up partial sums.
 */
#ifndef MOONPOLY_LAUNCH_CUDA_WORKSPACE_H_
#define MOONPOLY_LAUNCH_CUDA_WORKSPACE_H_

#include "artifact/gpu_kernel_set.h"
#include "cuda/driver.h"
#include "select/gpu_plan.h"

namespace moonpoly {

/*! \brief Partial sums, and counters that are zero before and after every launch. */
struct Workspace {
  void* sums;
  void* counters;
};

/*!
 * \brief The workspace of a stream, large enough for the region: launches of one stream follow one
 *        another, those of different streams may run at once.
 *
 * The first call for a stream, and one that needs more than those before, allocate; that throws
 * RuntimeError while the stream captures a graph. Memory is never given back or moved while graphs
 * may still use it.
 */
Workspace WorkspaceOf(const GpuKernelSpec& kernel, const GpuRegion& region, int device,
                      cuda::Stream stream);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_CUDA_WORKSPACE_H_
