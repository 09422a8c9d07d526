// A graph's numbers from the shapes of some of its values, for given shapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/onnx/node_index.h"
#include "engine/model/onnx/numbers.h"

namespace upscaled::onnx {

// A graph's remaining budget of numbers.
struct NumberBudget {
  int64_t numbers = int64_t{1} << 27;
};

class PlaneNumbers {
 public:
  using Shapes = std::map<std::string, std::vector<int64_t>>;  // by the name of a value's origin

  // Borrows both. Numbers come out of the budget, even if there is no result.
  PlaneNumbers(const NodeIndex& nodes, Shapes shapes, NumberBudget& budget)
      : nodes_(nodes), shapes_(std::move(shapes)), budget_(budget) {}

  // Returns a value that follows from constants and from these shapes only, and from the shapes
  // that sums, products with matrices, norms, reshapes, and convolutions that keep the size, give
  // of them; nothing for others, for numbers that we do not compute, and if the budget is used up.
  std::optional<Numbers> Of(const std::string& name) {
    const Numbers* const numbers = Find(name, 0);
    return numbers == nullptr ? std::nullopt : std::optional(*numbers);
  }
  std::optional<std::vector<int64_t>> Ints(const std::string& name);

 private:
  // Null for nothing. Numbers stay where they are: an input may be named any number of times.
  const Numbers* Find(const std::string& name, int depth);
  std::optional<Numbers> Compute(const std::string& name, int depth);
  std::optional<Numbers> ShapeOf(const NodeProto& node, int depth);
  // The sides of a value, if they follow from those of others.
  std::optional<std::vector<int64_t>> SidesOf(const std::string& name, int depth);
  std::optional<std::vector<int64_t>> InferSides(const NodeProto& node, int depth);
  std::optional<std::vector<int64_t>> ReshapedSides(const NodeProto& node, int depth);

  const NodeIndex& nodes_;
  const Shapes shapes_;
  NumberBudget& budget_;
  int64_t own_numbers_ = int64_t{1} << 25;  // that may still be kept here
  std::map<std::string, std::optional<Numbers>> known_;
  std::map<std::string, std::optional<std::vector<int64_t>>> known_sides_;
};

}  // namespace upscaled::onnx
