/*!
 * \file launch/threads.h
 * \brief How many threads to use, and running on TVM's thread pool.
 */
#ifndef MOONPOLY_LAUNCH_THREADS_H_
#define MOONPOLY_LAUNCH_THREADS_H_

#include <tvm/runtime/c_backend_api.h>

#include <cstdint>

namespace moonpoly {

/*!
 * \brief Threads that a plan may use: the smaller of what was asked for and what TVM's pool of the
 *        calling thread has. 1 on a worker of the pool, which must not launch again.
 */
int32_t NumThreads();

/*! \brief Threads of TVM's pool of the calling thread, whatever was asked for. */
int32_t MaxThreads();

/*! \brief Ask for at most `count` threads; 0 gives the choice back to the environment. */
void SetNumThreads(int32_t count);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_THREADS_H_
