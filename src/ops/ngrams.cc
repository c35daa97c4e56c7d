/*!
 * \file ops/ngrams.cc
 * \brief Counting the n-grams of ONNX's TfIdfVectorizer.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

/*! \brief The known n-grams of one length, in ascending order, and where each is counted. */
struct Pool {
  const int64_t* grams;
  const int64_t* columns;
  int64_t count, length;

  /*! \brief The column of the n-gram, or -1. */
  int64_t Find(const int64_t* gram) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const int64_t* candidate = grams + middle * length;
      if (std::lexicographical_compare(candidate, candidate + length, gram, gram + length)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool found = low < count && std::equal(gram, gram + length, grams + low * length);
    return found ? columns[low] : -1;
  }
};

// (words, most skipped, width, n-grams and columns of each length...). A word of an n-gram follows
// the one before it at a distance of 1 to 1 + most skipped, the same for all of them.
ffi::Tensor CountNGrams(ffi::PackedArgs args) {
  const DLTensor* words = args[0].cast<DLTensor*>();
  const int64_t most_skipped = args[1].cast<int64_t>(), width = args[2].cast<int64_t>();
  const int64_t* word = Elements<int64_t>(words, "words");
  const int64_t steps = words->shape[words->ndim - 1];
  const int64_t rows = words->ndim == 1 ? 1 : words->shape[0];
  std::vector<Pool> pools;
  for (int i = 3; i + 1 < args.size(); i += 2) {
    const DLTensor *grams = args[i].cast<DLTensor*>(), *columns = args[i + 1].cast<DLTensor*>();
    CheckRank(grams, 2, "n-grams");
    CheckExtent(columns, 0, grams->shape[0], "columns");
    pools.push_back({Elements<int64_t>(grams, "n-grams"), Elements<int64_t>(columns, "columns"),
                     grams->shape[0], grams->shape[1]});
  }
  std::vector<int64_t> shape(words->shape, words->shape + words->ndim);
  shape.back() = width;
  ffi::Tensor out = NewTensor(shape, {kDLFloat, 32, 1});
  auto* counts = static_cast<float*>(out.data_ptr());
  std::fill(counts, counts + rows * width, 0.0f);
  std::vector<int64_t> gram;
  for (int64_t row = 0; row < rows; ++row, word += steps, counts += width) {
    for (const Pool& pool : pools) {
      // A single word has no distances.
      const int64_t farthest = pool.length == 1 ? 1 : most_skipped + 1;
      gram.resize(pool.length);
      for (int64_t distance = 1; distance <= farthest; ++distance) {
        for (int64_t at = 0; at + distance * (pool.length - 1) < steps; ++at) {
          for (int64_t i = 0; i < pool.length; ++i) gram[i] = word[at + i * distance];
          const int64_t column = pool.Find(gram.data());
          if (column >= 0) counts[column] += 1.0f;
        }
      }
    }
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def_packed(
      "moonpoly.op.count_ngrams",
      [](ffi::PackedArgs args, ffi::Any* result) { *result = CountNGrams(args); });
}

}  // namespace moonpoly
