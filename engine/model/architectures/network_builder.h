// Builds a network from named tensors: a file per architecture calls it as PyTorch's code calls
// its modules.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// Methods append a layer and give its index, for others to take as their input. The first error
// stays, and later calls do nothing: Finish tells.
class NetworkBuilder {
 public:
  // Borrows the file.
  explicit NetworkBuilder(const TensorFile& file) : file_(file) {}

  const TensorFile& file() const { return file_; }

  static constexpr int kSame = -1;  // padding that keeps the size: half the kernel

  struct ConvOptions {
    int stride_px = 1;
    int padding_px = kSame;
    int groups = 1;
    Activation activation = Activation::kNone;
    float slope = 0;   // of kLeakyRelu
    float factor = 1;  // of the result, where there is no activation
  };

  int Input();
  // NAME.weight [out][in / groups][kernel][kernel] and, if it is there, NAME.bias.
  int Conv(int input, std::string_view name, const ConvOptions& options);
  // NAME.weight [in][out][kernel][kernel].
  int ConvTranspose(int input, std::string_view name, const ConvOptions& options);
  // Convolutions with weights other than a tensor of the file as it is. Set channels and inputs.
  int Conv(int input, Layer conv);
  int GroupedConv(int input, Layer conv);
  int ConvTranspose(int input, Layer conv);
  // On each pixel's channels: NAME.weight [out][in] and, if it is there, NAME.bias.
  int Linear(int input, std::string_view name, Activation activation = Activation::kNone);
  // The same, for `channels` channels, as a convolution to be changed before Conv. Without weights
  // after an error.
  Layer ReadLinear(std::string_view name, int channels);
  // With its parameters and weights; queries, keys and values are `input`'s channels.
  int WindowAttention(int input, Layer attention);
  // Among the channels of each head, of such an input; one temperature for each head.
  int ChannelAttention(int input, std::vector<float> temperatures);
  // With its parameters and weights; the input as for WindowAttention.
  int PartAttention(int input, Layer attention) {
    return WindowAttention(input, std::move(attention));
  }
  // On one value per channel; NAME.weight [out][in] or [out][in][1][1].
  int FullyConnected(int input, std::string_view name, Activation activation);
  // NAME.weight, one slope or one for each channel. Nothing else may read `input`.
  int PRelu(int input, std::string_view name);
  // `slope`: of kLeakyRelu. Others have no parameters.
  int Activate(int input, Activation activation, float slope = 0);
  // Equal values stand for all channels.
  int Affine(int input, std::vector<float> factor, std::vector<float> offset);
  int Add(int a, int b) { return Join(Op::kAdd, {a, b}); }
  int Mul(int a, int b) { return Join(Op::kMul, {a, b}); }
  int Concat(std::vector<int> inputs) { return Join(Op::kConcat, std::move(inputs)); }
  // So many channels, from `first` on.
  int Slice(int input, int first, int channels);
  // NAME.weight and, if it is there, NAME.bias, one for each channel.
  int LayerNorm(int input, std::string_view name, float epsilon);
  // Over `groups` shares of the channels and the whole image; NAME.weight and NAME.bias.
  int GroupNorm(int input, std::string_view name, int groups, float epsilon);
  // With its parameters and weights.
  int PixelNorm(int input, Layer norm);
  int GlobalAveragePool(int input);
  int MaxPool(int input, int kernel_px, int stride_px);
  // kGridToWindows or kWindowsToGrid.
  int Rearrange(int input, Op op, int factor);
  // `other` resized to the size of `input`, and added to it.
  int AddResized(int input, int other) { return Join(Op::kAddResized, {input, other}); }
  // `factor` x `factor` samples of `input` for each pixel of `offsets`: see kSample.
  int Sample(int input, int offsets, int groups, int factor);
  // These four give `input` itself for a factor of 1.
  int PixelShuffle(int input, int factor);
  int PixelUnshuffle(int input, int factor);
  int Nearest(int input, int factor);
  int Bilinear(int input, int factor);
  int Crop(int input, int crop_px);
  // `align_px`: the sides are rounded up to multiples of it first.
  int Pad(int input, int padding_px, PadMode mode, int align_px = 1, float value = 0);

  // The network looks at this many channels of the image's three.
  void SetInputChannels(int channels) { network_.input_channels = channels; }

  // Unneeded tensors, by the beginnings of their names.
  void Ignore(std::string_view prefix);
  // A tensor's values; it must have this shape. Empty after an error.
  std::vector<float> Read(std::string_view name, const std::vector<int64_t>& shape);
  // The shape of a tensor. All zero after an error; this many axes in any case.
  std::vector<int64_t> Shape(std::string_view name, size_t axes);
  // The channels of a layer's result.
  int Channels(int layer) const { return network_.layers[layer].out_channels; }
  void Fail(absl::Status error);
  bool ok() const { return status_.ok(); }

  // The validated network. INVALID_ARGUMENT: a tensor is missing, has another shape than the
  // architecture wants or does not belong to it.
  absl::StatusOr<Network> Finish();

 private:
  int Append(Layer layer);
  int Join(Op op, std::vector<int> inputs);
  // Reads weights [first][second][kernel][kernel], with `layer`'s number of results as either axis.
  int AppendConv(int input, std::string_view name, const ConvOptions& options, Op op);
  // The fields of a kConv or kConvTranspose with its weights.
  int AppendOwn(int input, Layer conv, Op op);
  std::vector<float> ReadBias(std::string_view name, int channels);
  // Fails if layers of the same name but for its numbers have one: the file is incomplete then.
  void CheckNoneHasBias(std::string_view bias);

  const TensorFile& file_;
  // Tensors of the file by their names without numbers; made once a bias is missing.
  std::map<std::string, std::string, std::less<>> kinds_;
  Network network_;
  std::set<std::string, std::less<>> read_;
  absl::Status status_;
};

}  // namespace upscaled
