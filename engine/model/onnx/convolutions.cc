// Operators with kernels of weights.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

// The one value of all of `values`, in 0..max; `missing` if `values` is empty.
absl::StatusOr<int> Uniform(const char* what, const std::vector<int64_t>& values, int missing,
                            int max) {
  if (values.empty()) return missing;
  const bool same =
      std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
  if (values.size() > 4 || !same || values[0] < 0 || values[0] > max) {
    return absl::UnimplementedError(
        absl::StrCat(what, " ", List(values), " are not supported, must be the same in 0..", max));
  }
  return static_cast<int>(values[0]);
}

}  // namespace

absl::StatusOr<Builder::Window> Builder::ReadWindow(Node& node, int kernel_px) {
  Attributes& attributes = node.attributes;
  ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, attributes.Ints("kernel_shape"));
  ASSIGN_OR_RETURN(const int declared_px, Uniform("kernel_shape", kernel, kernel_px, kMaxKernelPx));
  if (declared_px != kernel_px) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel_shape is ", declared_px, ", the weights have ", kernel_px));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> dilations, attributes.Ints("dilations"));
  RETURN_IF_ERROR(Uniform("dilations", dilations, 1, 1).status());
  ASSIGN_OR_RETURN(const std::vector<int64_t> strides, attributes.Ints("strides"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, attributes.Ints("pads"));
  Window window;
  ASSIGN_OR_RETURN(window.stride_px, Uniform("strides", strides, 1, kMaxFactor));
  ASSIGN_OR_RETURN(window.padding_px, Uniform("pads", pads, 0, kMaxKernelPx));
  ASSIGN_OR_RETURN(const std::string auto_pad, attributes.String("auto_pad", "NOTSET"));
  if (auto_pad == "NOTSET" || (auto_pad == "VALID" && window.padding_px == 0)) return window;
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same || kernel_px % 2 == 0 || window.stride_px != 1 || node.proto.op_type() != "Conv") {
    return absl::UnimplementedError(absl::StrCat("auto_pad ", Quote(auto_pad),
                                                 " is not supported with these strides and pads"));
  }
  window.padding_px = kernel_px / 2;
  return window;
}

absl::Status Builder::ReadKernel(const Node& node, Layer& layer) {
  ASSIGN_OR_RETURN(const TensorProto* weights, Constant(node, 1));
  const bool transposed = layer.op == Op::kConvTranspose;
  if (weights->dims_size() != 4 ||
      weights->dims(transposed ? 0 : 1) != layer.in_channels / layer.groups ||
      weights->dims(transposed ? 1 : 0) < 1 || weights->dims(transposed ? 1 : 0) > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("has weights of ", DescribeShape(*weights),
                                                   " for ", layer.in_channels, " channels"));
  }
  if (weights->dims(2) != weights->dims(3) || weights->dims(2) < 1 ||
      weights->dims(2) > kMaxKernelPx) {
    return absl::UnimplementedError(absl::StrCat("kernel ", weights->dims(2), "x", weights->dims(3),
                                                 " must be square and at most ", kMaxKernelPx));
  }
  layer.out_channels = static_cast<int>(weights->dims(transposed ? 1 : 0));
  layer.kernel_px = static_cast<int>(weights->dims(2));
  ASSIGN_OR_RETURN(layer.weights, ReadFloats(*weights));
  return absl::OkStatus();
}

absl::Status Builder::ReadBias(const Node& node, Layer& layer) {
  layer.bias.assign(layer.out_channels, 0.0f);
  if (node.inputs.size() < 3 || node.inputs[2] == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TensorProto* bias, Constant(node, 2));
  ASSIGN_OR_RETURN(const int64_t count, ValueCount(*bias));
  if (count != layer.out_channels) {
    return absl::InvalidArgumentError(absl::StrCat("has a bias of ", DescribeShape(*bias), " for ",
                                                   layer.out_channels, " channels"));
  }
  ASSIGN_OR_RETURN(layer.bias, ReadFloats(*bias));
  return absl::OkStatus();
}

absl::Status Builder::AddConv(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  Layer layer = NewLayer(node, Op::kConv, {input});
  ASSIGN_OR_RETURN(const int64_t groups, node.attributes.Int("group", 1));
  if (groups < 1 || layer.in_channels % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot share ", layer.in_channels, " channels among ", groups, " groups"));
  }
  layer.groups = static_cast<int>(groups);
  if (groups > 1) layer.op = Op::kGroupedConv;
  RETURN_IF_ERROR(ReadKernel(node, layer));
  RETURN_IF_ERROR(ReadBias(node, layer));
  ASSIGN_OR_RETURN(const Window window, ReadWindow(node, layer.kernel_px));
  if (!per_image_[input->layer]) {
    layer.stride_px = window.stride_px;
    layer.padding_px = window.padding_px;
    return Append(node, std::move(layer));
  }
  if (layer.kernel_px != 2 * window.padding_px + 1) {
    return absl::UnimplementedError("a kernel that makes other than one value of one per channel");
  }
  layer.padding_px = window.padding_px;
  if (layer.kernel_px == 1 && groups == 1) layer.op = Op::kFullyConnected;
  return Append(node, std::move(layer));
}

absl::Status Builder::AddConvTranspose(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  Layer layer = NewLayer(node, Op::kConvTranspose, {input});
  RETURN_IF_ERROR(node.attributes.Expect("group", 1));
  RETURN_IF_ERROR(ReadKernel(node, layer));
  RETURN_IF_ERROR(ReadBias(node, layer));
  ASSIGN_OR_RETURN(const Window window, ReadWindow(node, layer.kernel_px));
  ASSIGN_OR_RETURN(const std::vector<int64_t> extra, node.attributes.Ints("output_padding"));
  RETURN_IF_ERROR(Uniform("output_padding", extra, 0, 0).status());
  layer.stride_px = window.stride_px;
  layer.padding_px = window.padding_px;
  return Append(node, std::move(layer));
}

absl::Status Builder::AddProduct(const Node& node, const Value& value, bool transposed) {
  ASSIGN_OR_RETURN(const TensorProto* weights, Constant(node, 1));
  const int64_t last = static_cast<int64_t>(value.view.size()) - 1;
  if (last < 0 || !AreChannels(value.view, {last}, Channels(value)) ||
      value.view[last].size() > 1 || HasCut(value)) {
    return absl::UnimplementedError("is only supported along the channels, which are last");
  }
  const int out_axis = transposed ? 0 : 1;
  Layer layer = NewLayer(node, Op::kConv, {&value});
  if (weights->dims_size() != 2 || weights->dims(1 - out_axis) != layer.in_channels ||
      weights->dims(out_axis) < 1 || weights->dims(out_axis) > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("has weights of ", DescribeShape(*weights),
                                                   " for ", layer.in_channels, " channels"));
  }
  layer.out_channels = static_cast<int>(weights->dims(out_axis));
  ASSIGN_OR_RETURN(layer.weights, ReadFloats(*weights));
  if (!transposed) {  // ours are [out][in]
    const std::vector<float> by_input = layer.weights;
    for (int out = 0; out < layer.out_channels; ++out) {
      for (int in = 0; in < layer.in_channels; ++in) {
        layer.weights[size_t{1} * out * layer.in_channels + in] =
            by_input[size_t{1} * in * layer.out_channels + out];
      }
    }
  }
  RETURN_IF_ERROR(ReadBias(node, layer));
  if (per_image_[value.layer]) layer.op = Op::kFullyConnected;
  Value result = value;
  result.view[last].clear();
  if (layer.out_channels > 1) {
    result.view[last] = {{Digit::kChannel, SameForAll(layer.out_channels), 1}};
  }
  ASSIGN_OR_RETURN(result.layer, AppendUnnamed(std::move(layer)));
  result.shared = false;
  return SetOutput(node, std::move(result));
}

absl::Status Builder::AddGemm(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  if (input->view.size() != 2) {
    return absl::UnimplementedError(
        "must follow a global pooling that was made flat, or pixels that were");
  }
  RETURN_IF_ERROR(node.attributes.ExpectFloat("alpha", 1));
  RETURN_IF_ERROR(node.attributes.ExpectFloat("beta", 1));
  RETURN_IF_ERROR(node.attributes.Expect("transA", 0));
  ASSIGN_OR_RETURN(const int64_t transposed, node.attributes.Int("transB", 0));
  return AddProduct(node, *input, transposed != 0);
}

absl::Status Builder::AddMatMul(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  if (node.Has(1) && node.inputs[1]->form == Form::kComputed) {
    return absl::UnimplementedError("is attention, a product of pixels, which is not supported");
  }
  return AddProduct(node, *input, false);
}

}  // namespace upscaled::onnx
