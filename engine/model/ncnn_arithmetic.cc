// ncnn's layer types for each value by itself, or with the same value of another blob.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/fuse.h"
#include "engine/model/ncnn_builder.h"

namespace upscaled {
namespace {

// BinaryOp's parameter 0.
enum BinaryOperation { kSum = 0, kDifference = 1, kProduct = 2, kQuotient = 3, kReversed = 7 };

absl::Status UnsupportedOperation(int type, const char* supported) {
  return absl::UnimplementedError(
      absl::StrCat("operation ", type, " is not supported, only ", supported));
}

}  // namespace

absl::Status NcnnBuilder::AppendAffine(NcnnLayer& source, float factor, float offset) {
  Layer layer = NewLayer(source, Op::kAffine);
  layer.weights.assign(layer.out_channels, factor);
  layer.bias.assign(layer.out_channels, offset);
  return AppendAffine(source, std::move(layer));
}

absl::Status NcnnBuilder::AddScalarOp(NcnnLayer& source, int type) {
  RETURN_IF_ERROR(source.params.Expect(1, "scalar operand", 1));
  ASSIGN_OR_RETURN(const float scalar, source.params.Float(2, 0));
  switch (type) {
    case kSum:
      return AppendAffine(source, 1, scalar);
    case kDifference:
      return AppendAffine(source, 1, -scalar);
    case kProduct:
      return AppendAffine(source, scalar, 0);
    case kQuotient:
      if (scalar == 0) return absl::InvalidArgumentError("divides by 0");
      return AppendAffine(source, 1 / scalar, 0);
    case kReversed:
      return AppendAffine(source, -1, scalar);
    default:
      return UnsupportedOperation(type, "0, 1, 2, 3 and 7 (+, -, *, / and reversed -)");
  }
}

absl::Status NcnnBuilder::AddBinaryOp(NcnnLayer& source) {
  ASSIGN_OR_RETURN(const int type, source.params.Int(0, kSum));
  if (inputs_.size() == 1) return AddScalarOp(source, type);
  if (inputs_.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("has ", inputs_.size(), " inputs, must have 2"));
  }
  RETURN_IF_ERROR(source.params.Expect(1, "scalar operand", 0));
  RETURN_IF_ERROR(source.params.Float(2, 0).status());  // the scalar that there is not
  switch (type) {
    case kSum:
      return AppendSum(source, {1, 1});
    case kDifference:
      return AppendSum(source, {1, -1});
    case kReversed:
      return AppendSum(source, {-1, 1});
    case kProduct:
      return Append(source, NewLayer(source, Op::kMul));
    default:
      return UnsupportedOperation(type, "0, 1, 2 and 7 (+, -, * and reversed -)");
  }
}

absl::Status NcnnBuilder::AppendSum(NcnnLayer& source, const std::vector<float>& factors) {
  std::vector<int> terms;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    int term = inputs_[i].layer;
    if (factors[i] != 1.0f) {
      const int channels = network_.layers[term].out_channels;
      Layer scaled{.op = Op::kAffine, .out_channels = channels, .in_channels = channels};
      scaled.weights.assign(channels, factors[i]);
      scaled.bias.assign(channels, 0.0f);
      if (inputs_[i].shared || !FuseAffine(scaled, network_.layers[term])) {
        scaled.inputs = {term};
        ASSIGN_OR_RETURN(term, AppendUnnamed(source, std::move(scaled)));
      }
    }
    terms.push_back(term);
  }
  Layer sum = NewLayer(source, Op::kAdd);
  sum.inputs = {terms[0], terms[1]};
  for (size_t i = 2; i < terms.size(); ++i) {
    Layer next = sum;
    next.inputs[1] = terms[i];
    ASSIGN_OR_RETURN(next.inputs[0], AppendUnnamed(source, std::move(sum)));
    sum = std::move(next);
  }
  return Append(source, std::move(sum));
}

absl::Status NcnnBuilder::AddEltwise(NcnnLayer& source) {
  ASSIGN_OR_RETURN(const int type, source.params.Int(0, 0));
  ASSIGN_OR_RETURN(std::vector<float> factors, source.params.Array(1));
  if (inputs_.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", inputs_.size(), " inputs, must have 2 or more"));
  }
  if (type == 1) {
    if (factors.empty()) factors.assign(inputs_.size(), 1.0f);
    if (factors.size() == inputs_.size()) return AppendSum(source, factors);
    return absl::InvalidArgumentError(
        absl::StrCat("has ", factors.size(), " coefficients for ", inputs_.size(), " inputs"));
  }
  if (type == 0 && inputs_.size() == 2) return Append(source, NewLayer(source, Op::kMul));
  return UnsupportedOperation(type, "0 (product of 2) and 1 (sum)");
}

// By a second input of one value per channel, or by weights of its own.
absl::Status NcnnBuilder::AddScale(NcnnLayer& source) {
  constexpr int kSecondInput = -233;
  if (inputs_.size() == 2) {
    RETURN_IF_ERROR(source.params.Expect(0, "weight count", kSecondInput));
    RETURN_IF_ERROR(source.params.Expect(1, "bias", 0));
    return Append(source, NewLayer(source, Op::kMul));
  }
  if (inputs_.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", inputs_.size(), " inputs, must have 1 or 2"));
  }
  Layer layer = NewLayer(source, Op::kAffine);
  ASSIGN_OR_RETURN(const int count, source.params.Int(0, 0));
  if (count != layer.out_channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", count, " weights for ", layer.out_channels, " channels"));
  }
  ASSIGN_OR_RETURN(const int has_bias, source.params.Int(1, 0));
  ASSIGN_OR_RETURN(layer.weights, weights_.ReadPlain(count));
  layer.bias.assign(count, 0.0f);
  if (has_bias != 0) {
    ASSIGN_OR_RETURN(layer.bias, weights_.ReadPlain(count));
  }
  return AppendAffine(source, std::move(layer));
}

}  // namespace upscaled
