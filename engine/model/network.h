// A network as every loader delivers it and every backend reads it: layers in execution order, with
// their weights in plain float and PyTorch's layouts, and nothing of the file format it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace upscaled {

enum class Op : uint8_t {
  kInput,          // the RGB image in 0..1, replicate-padded by Network::pad_px
  kConv,           // weights [out][in][kernel][kernel], bias [out]
  kGroupedConv,    // Layer::groups convolutions, each from and to its own share of the channels, in
                   // order; weights [out][in / groups][kernel][kernel], bias [out]
  kConvTranspose,  // weights [in][out][kernel][kernel], bias [out]
  kPixelShuffle,   // channel c * factor^2 + dy * factor + dx -> (c, y * factor + dy, x * factor +
                   // dx)
  kResizeNearest,  // each pixel factor x factor times
  kResizeBilinear,  // half-pixel centres
  kAdd,             // two inputs of one shape
  kMul,             // two inputs; the second may be [channels] of 1x1 (squeeze-excite)
  kConcat,          // along channels
  kSlice,           // out_channels channels from Layer::first_channel on
  kCrop,            // Layer::crop_px from every side
  kPad,             // Layer::padding_px on every side, filled as pad_mode says; before that, up to
                    // multiples of Layer::factor on the right and at the bottom
  kAffine,          // weights [channels] times the input plus bias [channels]
  // Each pixel over its channels, each of Layer::groups shares of them by itself, to a mean square
  // of 1, around its mean if Layer::centred (LayerNorm of channels, else RMSNorm); then as kAffine.
  kPixelNorm,
  // Each of Layer::groups shares of the channels, in order, over the whole image, to a mean of 0
  // and a mean square of 1; then as kAffine. The second input has the means over the image, of each
  // channel's values and then of their squares: [2 * channels] of 1x1. These are exact enough while
  // a group's mean is below some 30 times its deviation, and values are below 256.
  kGroupNorm,
  // Attention in windows (Liu et al., "Swin Transformer", 2021). The input's channels are queries,
  // keys and values, a third each; Layer::groups heads share each third, in order. Windows lie on a
  // lattice of the layer (Layer::window_x, window_y). A pixel p gets the sum over pixels t of
  // softmax_t(query_p . key_t + bias) * value_t, in its window and overlap_px around it.
  // weights [head][p][t] is the bias, in row order. The layer is as if padded with zeros up to
  // multiples of `factor` on the right and at the bottom, and then by overlap_px on every side; t
  // beyond does not count. Networks with a rolled image and a mask of its seam are the same.
  // Loaders scale the queries.
  kWindowAttention,
  // The products for kChannelAttention's means. The input's channels are as for kWindowAttention.
  // Gives each query channel times each key channel of its head: [query][key], and then the squares
  // of all queries and keys.
  kChannelProducts,
  // Attention among a head's channels (El-Nouby et al., "XCiT", 2021): each value channel becomes
  // the sum over its head's values, times the softmax of weights [head] times the cosine of its
  // query channel and their key channels. The second input has the means over the image of
  // kChannelProducts' results: as many of 1x1.
  kChannelAttention,
  // Enlarges by samples between pixels (Liu et al., "Learning to Upsample by Learning to Sample",
  // 2023): DySample. Result pixel (x * factor + i, y * factor + j) of each of Layer::groups shares
  // of the channels is the first input at (x + dx, y + dy), bilinear, the edge repeated. The second
  // input has all dx at (x, y), [group][j][i], and then all dy.
  kSample,
  // kChannelAttention of parts of the layer, each by itself, with lengths and products summed over
  // a part's pixels (Wang et al., "Omni Aggregation Networks for Lightweight Image
  // Super-Resolution", 2023). Parts are the windows of Layer::window_x, window_y from the layer's
  // corner on, or, with a factor above 1, all pixels at the same place in squares of factor x
  // factor.
  kPartAttention,
  // A layer of factor x side pixels along each axis, in another order: pixel x * factor + i is
  // pixel i * side + x of the input. So grids of factor x factor pixels, spread over the layer,
  // become windows.
  kGridToWindows,
  kWindowsToGrid,  // back
  kMaxPool,     // the largest of kernel_px x kernel_px values, every stride_px; fewer if the layer
                // ends
  kAddResized,  // the first input, and the second resized to its size: bilinear, half-pixel centres
  kGlobalAveragePool,
  kFullyConnected,  // on [channels] of 1x1; weights [out][in]
  kActivation,      // Layer::activation alone, where it could not be fused
};

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kLeakyRelu,  // slope: one value
  kPRelu,      // slope: one value per channel
  kSigmoid,
  kClip,      // clip_min..clip_max
  kSilu,      // v * sigmoid(v), also known as Swish
  kMish,      // v * tanh(log(1 + exp(v)))
  kGelu,      // v * (1 + erf(v / sqrt(2))) / 2
  kGeluTanh,  // v * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3))) / 2
  kSoftplus,  // log(1 + exp(v))
};

enum class PadMode : uint8_t {
  kConstant,   // Layer::pad_value
  kReplicate,  // the edge pixel
  kReflect,    // mirrored at the edge pixel, which is not repeated; again and again when too narrow
  kWrap,       // the opposite side's pixel
};

enum class Axis : uint8_t { kX, kY };

// The windows of kWindowAttention along an axis: window_px each, the first one from -shift_px on.
struct WindowAxis {
  int window_px = 1, shift_px = 0;

  bool operator==(const WindowAxis&) const = default;
};

struct Layer {
  Op op = Op::kInput;
  std::string name;
  std::vector<int> inputs;  // indices of earlier layers
  int out_channels = 0;
  int in_channels = 0;  // those of inputs[0]

  int kernel_px = 1;
  int stride_px = 1;
  int groups = 1;  // kGroupedConv, kPixelNorm, kGroupNorm, kSample; heads of attention
  WindowAxis window_x, window_y;
  int overlap_px = 0;  // kWindowAttention
  // kConv, kGroupedConv: zero border added on every side. kConvTranspose: cut off every side of the
  // result. kPad: added on every side.
  int padding_px = 0;
  int factor = 1;
  // Cut off every side. In a backend's own network also off the second input, for layers with its
  // sum in their result.
  int crop_px = 0;
  // In a backend's own network: each remaining pixel of the second input is added to
  // residual_factor x residual_factor pixels of the result.
  int residual_factor = 1;
  int first_channel = 0;  // kSlice
  bool centred = true;    // kPixelNorm
  float epsilon = 1e-6f;  // kPixelNorm, kGroupNorm: added to the mean square
  PadMode pad_mode = PadMode::kConstant;
  float pad_value = 0;

  std::vector<float> weights;
  std::vector<float> bias;

  // Applied to the layer's result.
  Activation activation = Activation::kNone;
  std::vector<float> slope;
  float clip_min = 0, clip_max = 1;
};

// kChannelAttention: the least product of a query's and a key's lengths, root mean squares.
// kPartAttention: the least length of either.
inline constexpr double kMinChannelNorm = 1e-12;

inline constexpr int kDefaultCellPx = 256;

struct Network {
  std::string name;
  std::string architecture;  // what built it of tensors alone; empty: its file holds the layers
  int input_channels = 3;  // that it looks at: 1 where luma is all, and colour is resized beside it
  std::vector<Layer> layers;  // layers[0] is the input; the last one gives the RGB result
  int scale = 1;              // output pixels per input pixel
  int pad_px = 0;             // border replicated around the image before the first layer
  int align_px = 1;           // the padded size is a multiple of this (right and bottom border)
  // Side of a large image's cells, if the network takes sums over the image or reads it anywhere:
  // see engine/pipeline/cells.h.
  int cell_px = kDefaultCellPx;

  // Checks that layers, shapes and weights fit each other, that all weights are finite, and that
  // `scale`, `pad_px` and the layers agree: an image of w x h gives exactly scale * (w x h).
  // INVALID_ARGUMENT names the layer and its fault.
  absl::Status Validate() const;
  // The two halves of Validate: the checks independent of scale, pad_px and align_px, and the rest,
  // for layers with the first passed.
  absl::Status ValidateLayers() const;
  absl::Status ValidateSizes() const;

  // Validate's bound on memory, for loaders to ask while they build: the number of layers and of
  // weights. INVALID_ARGUMENT names count and limit.
  absl::Status CheckCounts() const;
  int64_t WeightCount() const;
  // Multiply-adds per output pixel, of the direct algorithm.
  double MacsPerOutputPixel() const;
};

std::string_view OpName(Op op);
std::string_view ActivationName(Activation activation);

}  // namespace upscaled
