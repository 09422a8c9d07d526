// Conditions on the computed numbers of an attention's nodes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/onnx/node_index.h"
#include "engine/model/onnx/plane_numbers.h"
#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// The windows of planes: rows, columns.
struct AttendedWindows {
  std::array<int64_t, 2> window = {}, roll = {};
  int64_t heads = 0;
};

// Names of values, and conditions on them.
struct AttentionClaims {
  AttendedWindows windows;
  std::vector<int64_t> bias;     // the shape of constants, added to the scores
  std::string mask;              // hides the roll's seam; empty: no roll
  std::set<std::string> planes;  // values of the planes' shape
  std::string tokens;            // the windows' pixels
  // The target of the reshape from pixels in a row to planes, and planes with the channels first
  // and its sides; both empty: none does.
  std::string layout, sized_by;
  std::string pads;                                   // numbers that are all 0; empty: no pad
  std::vector<std::pair<std::string, int64_t>> ends;  // of slices, and the axis that they end
  // Targets of reshapes, in order: from planes to heads, and from heads to planes.
  std::string split, cut, by_head, attended, joined, whole;
  std::vector<std::string> squares;  // targets of reshapes between planes and windows' pixels
  std::vector<std::string> scores;   // targets of reshapes between products and softmax
  std::vector<std::string> factors;  // of queries and keys
  std::vector<std::string> inner;    // values that nothing else may read
  std::set<std::string> measured;    // of these, values that their own lengths read, too
};

// Returns the product of the factors if all numbers are as they must be for planes of a few sizes;
// nothing otherwise. `first`, `second`: the weights of the projections before and behind. Does not
// look at `inner`.
std::optional<double> CheckClaims(const AttentionClaims& claims, const TensorProto& first,
                                  const TensorProto& second, const NodeIndex& nodes,
                                  NumberBudget& budget);

}  // namespace upscaled::onnx
