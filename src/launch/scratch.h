/*!
 * \file launch/scratch.h
 * \brief Memory that a thread keeps for packing and padding: allocated once, of fixed size.
 */
#ifndef MOONPOLY_LAUNCH_SCRATCH_H_
#define MOONPOLY_LAUNCH_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace moonpoly {

/*! \brief Capacities in floats. */
constexpr int64_t kScratchA = 192 << 10;
constexpr int64_t kScratchB = 1024 << 10;
constexpr int64_t kScratchC = 64 << 10;
/*! \brief Of the results of several images together. */
constexpr int64_t kMaxFoldedFloats = 1 << 20;

/*! \brief One thread's scratch. Null pointers where memory could not be had. */
class Scratch {
 public:
  /*! \brief The calling thread's; allocated on its first use. */
  static Scratch& Get();

  float* a() const { return base_; }
  float* b() const { return base_ + kScratchA; }
  float* c() const { return base_ + kScratchA + kScratchB; }
  bool ok() const { return base_ != nullptr; }
  /*! \brief Partial sums; allocated on first use, null where memory could not be had. */
  float* partial();
  /*! \brief Results of several images; allocated on first use, null where memory could not be had.
   */
  float* folded();

 private:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* base_ = nullptr;
  float* partial_ = nullptr;
  float* folded_ = nullptr;
};

/*! \brief Memory on huge pages where the system gives them, aligned to 64 bytes at least. */
float* AllocateFloats(int64_t count);
void FreeFloats(float* data);

/*! \brief Ask for huge pages for existing memory; a hint that may have no effect. */
void AdviseHugePages(void* data, size_t num_bytes);

}  // namespace moonpoly

#endif  // MOONPOLY_LAUNCH_SCRATCH_H_
