/*!
 * \file ops/tree_ensemble.cc
 * \brief The sum of decision trees, of ai.onnx.ml's TreeEnsemble.
 */
#include <tvm/ffi/error.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "launch/tensor_check.h"
#include "ops/tensor.h"

namespace moonpoly {

namespace ffi = tvm::ffi;

namespace {

/*! \brief A row of the table of nodes. */
struct Node {
  int64_t feature, mode, yes, yes_is_leaf, no, no_is_leaf, missing_is_yes, begin, end;
};

constexpr int64_t kNodeFields = sizeof(Node) / sizeof(int64_t);

class Trees {
 public:
  Trees(const DLTensor* nodes, const DLTensor* splits, const DLTensor* members,
        const DLTensor* targets, const DLTensor* weights, const DLTensor* roots)
      : nodes_(reinterpret_cast<const Node*>(Elements<int64_t>(nodes, "nodes"))),
        splits_(Elements<double>(splits, "splits")),
        members_(Elements<double>(members, "members")),
        targets_(Elements<int64_t>(targets, "targets")),
        weights_(Elements<double>(weights, "weights")),
        roots_(Elements<int64_t>(roots, "roots")),
        num_nodes_(nodes->shape[0]),
        num_leaves_(NumElements(weights)),
        num_roots_(NumElements(roots)),
        num_members_(NumElements(members)) {
    CheckExtent(nodes, 1, kNodeFields, "nodes");
    CheckExtent(splits, 0, num_nodes_, "splits");
    CheckExtent(targets, 0, num_leaves_, "targets");
  }

  /*! \brief Throws ValueError where a walk could leave the tables. */
  void Check(int64_t num_features, int64_t num_targets) const {
    for (int64_t i = 0; i < num_nodes_; ++i) {
      const Node& node = nodes_[i];
      const bool inside = 0 <= node.feature && node.feature < num_features &&
                          IsInside(node.yes, node.yes_is_leaf) &&
                          IsInside(node.no, node.no_is_leaf) && node.end <= num_members_;
      if (!inside) {
        TVM_FFI_THROW(ValueError) << "node " << i << " of a TreeEnsemble reads feature "
                                  << node.feature << " of " << num_features << " or leads to "
                                  << node.yes << " or " << node.no << ", which is not there";
      }
    }
    for (int64_t i = 0; i < num_leaves_; ++i) CheckIndex(targets_[i], num_targets, "target");
    for (int64_t i = 0; i < num_roots_; ++i) CheckIndex(roots_[i], num_nodes_, "root");
  }

  template <typename T>
  void AddTo(const T* row, double* sums) const {
    for (int64_t i = 0; i < num_roots_; ++i) {
      int64_t at = roots_[i];
      // A cycle would go on for ever; no path has more nodes than there are.
      for (int64_t steps = 0; steps < num_nodes_; ++steps) {
        const Node& node = nodes_[at];
        const bool yes = IsTrue(node, splits_[at], static_cast<double>(row[node.feature]));
        const int64_t next = yes ? node.yes : node.no;
        if ((yes ? node.yes_is_leaf : node.no_is_leaf) != 0) {
          sums[targets_[next]] += weights_[next];
          break;
        }
        at = next;
      }
    }
  }

 private:
  bool IsInside(int64_t next, int64_t is_leaf) const {
    return 0 <= next && next < (is_leaf != 0 ? num_leaves_ : num_nodes_);
  }

  static void CheckIndex(int64_t index, int64_t count, const char* name) {
    if (index < 0 || index >= count) {
      TVM_FFI_THROW(ValueError) << name << " " << index << " of a TreeEnsemble is not one of "
                                << count;
    }
  }

  bool IsTrue(const Node& node, double split, double value) const {
    if (std::isnan(value) && node.missing_is_yes != 0) return true;
    switch (node.mode) {
      case 0:
        return value <= split;
      case 1:
        return value < split;
      case 2:
        return value >= split;
      case 3:
        return value > split;
      case 4:
        return value == split;
      case 5:
        return value != split;
      default:
        return std::find(members_ + node.begin, members_ + node.end, value) != members_ + node.end;
    }
  }

  const Node* nodes_;
  const double *splits_, *members_;
  const int64_t* targets_;
  const double* weights_;
  const int64_t* roots_;
  int64_t num_nodes_, num_leaves_, num_roots_, num_members_;
};

template <typename T>
void Evaluate(const Trees& trees, const DLTensor* x, int64_t num_targets, T* to) {
  const T* row = reinterpret_cast<const T*>(ConstData(x));
  std::vector<double> sums(num_targets);
  for (int64_t i = 0; i < x->shape[0]; ++i, row += x->shape[1], to += num_targets) {
    std::fill(sums.begin(), sums.end(), 0.0);
    trees.AddTo(row, sums.data());
    std::copy(sums.begin(), sums.end(), to);
  }
}

ffi::Tensor TreeEnsemble(const DLTensor* x, const Trees& trees, int64_t num_targets) {
  CheckContiguous(x, "input");
  CheckRank(x, 2, "input");
  if (x->dtype.code != kDLFloat || (x->dtype.bits != 32 && x->dtype.bits != 64)) {
    TVM_FFI_THROW(TypeError) << "the input of a TreeEnsemble must be float32 or float64";
  }
  trees.Check(x->shape[1], num_targets);
  ffi::Tensor out = NewTensor({x->shape[0], num_targets}, x->dtype);
  if (x->dtype.bits == 32) {
    Evaluate(trees, x, num_targets, static_cast<float*>(out.data_ptr()));
  } else {
    Evaluate(trees, x, num_targets, static_cast<double*>(out.data_ptr()));
  }
  return out;
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "moonpoly.op.tree_ensemble",
      [](DLTensor* x, DLTensor* nodes, DLTensor* splits, DLTensor* members, DLTensor* targets,
         DLTensor* weights, DLTensor* roots, int64_t num_targets) {
        return TreeEnsemble(x, Trees(nodes, splits, members, targets, weights, roots), num_targets);
      });
}

}  // namespace moonpoly
