#include "engine/model/ncnn_exporter.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "engine/model/ncnn_param.h"
#include "engine/model/op.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

// With an exponent: ncnn reads a number without an exponent or a point as an integer.
std::string Exactly(float value) { return absl::StrFormat("%.9e", value); }

// Writes a line for each layer, one for its activation, and a Split where several read its result.
class NcnnWriter {
 public:
  explicit NcnnWriter(const Network& network)
      : network_(network), readers_(network.layers.size(), 0) {
    for (const Layer& layer : network.layers) {
      for (const int input : layer.inputs) ++readers_[input];
    }
  }

  NcnnFilePair Write() {
    for (size_t i = 0; i < network_.layers.size(); ++i) WriteLayer(static_cast<int>(i));
    return {absl::StrCat(std::string(kNcnnMagic), "\n", lines_.size(), " ", blobs_, "\n",
                         absl::StrJoin(lines_, "\n"), "\n"),
            std::move(bin_)};
  }

 private:
  struct Result {
    std::vector<std::string> blobs;  // one for each reader
    size_t taken = 0;
  };

  void WriteLayer(int index) {
    const Layer& layer = network_.layers[index];
    const bool last = index + 1 == static_cast<int>(network_.layers.size());
    const std::string name = index == 0 ? "data" : last ? "output" : absl::StrCat("layer", index);
    std::vector<std::string> inputs;
    for (const int input : layer.inputs) inputs.push_back(Take(input));
    if (layer.activation == Activation::kNone) {
      Compute(layer, inputs, name);
    } else if (layer.op == Op::kActivation) {
      Activate(layer, inputs, name);
    } else {
      Compute(layer, inputs, name + "_before");
      Activate(layer, {name + "_before"}, name);
    }
    results_.push_back({Split(name, readers_[index])});
  }

  const std::string& Take(int layer) {
    Result& result = results_[layer];
    return result.blobs[result.taken++];
  }

  std::vector<std::string> Split(const std::string& name, int readers) {
    if (readers <= 1) return {name};
    std::vector<std::string> blobs;
    for (int i = 0; i < readers; ++i) blobs.push_back(absl::StrCat(name, "_split_", i));
    Line("Split", {name}, blobs, "");
    return blobs;
  }

  void Line(const char* type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const std::string& params) {
    blobs_ += outputs.size();
    std::vector<std::string> words = {type, absl::StrCat(type, lines_.size()),
                                      absl::StrCat(inputs.size()), absl::StrCat(outputs.size())};
    words.insert(words.end(), inputs.begin(), inputs.end());
    words.insert(words.end(), outputs.begin(), outputs.end());
    if (!params.empty()) words.push_back(params);
    lines_.push_back(absl::StrJoin(words, " "));
  }

  void Append(const std::vector<float>& values) {
    bin_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  void AppendTagged(const std::vector<float>& values) {
    bin_.append(sizeof(uint32_t), '\0');  // in fp32
    Append(values);
  }

  // ncnn's layout of transposed convolutions is [out][in][kernel], ours is [in][out][kernel].
  static std::vector<float> OutputsFirst(const Layer& layer) {
    if (layer.op != Op::kConvTranspose) return layer.weights;
    const int64_t taps = int64_t{layer.kernel_px} * layer.kernel_px;
    std::vector<float> swapped(layer.weights.size());
    for (int64_t in = 0; in < layer.in_channels; ++in) {
      for (int64_t out = 0; out < layer.out_channels; ++out) {
        std::copy_n(layer.weights.begin() + (in * layer.out_channels + out) * taps, taps,
                    swapped.begin() + (out * layer.in_channels + in) * taps);
      }
    }
    return swapped;
  }

  void Convolve(const Layer& layer, const std::vector<std::string>& inputs,
                const std::string& name) {
    const bool grouped = layer.op == Op::kGroupedConv;
    Line(grouped                 ? "ConvolutionDepthWise"
         : layer.op == Op::kConv ? "Convolution"
                                 : "Deconvolution",
         inputs, {name},
         absl::StrCat("0=", layer.out_channels, " 1=", layer.kernel_px, " 3=", layer.stride_px,
                      " 4=", layer.padding_px, " 5=1 6=", layer.weights.size(),
                      grouped ? absl::StrCat(" 7=", layer.groups) : ""));
    AppendTagged(OutputsFirst(layer));
    Append(layer.bias);
  }

  // The layer without its activation.
  void Compute(const Layer& layer, const std::vector<std::string>& inputs,
               const std::string& name) {
    switch (layer.op) {
      case Op::kInput:
        return Line("Input", {}, {name}, absl::StrCat("2=", layer.out_channels));
      case Op::kConv:
      case Op::kGroupedConv:
      case Op::kConvTranspose:
        return Convolve(layer, inputs, name);
      case Op::kPixelShuffle:
        return Line("PixelShuffle", inputs, {name}, absl::StrCat("0=", layer.factor));
      case Op::kResizeNearest:
      case Op::kResizeBilinear:
        return Line("Interp", inputs, {name},
                    absl::StrCat("0=", layer.op == Op::kResizeNearest ? 1 : 2,
                                 " 1=", Exactly(static_cast<float>(layer.factor)),
                                 " 2=", Exactly(static_cast<float>(layer.factor))));
      case Op::kAdd:
        return Line("BinaryOp", inputs, {name}, "0=0");
      case Op::kMul:
        return Line("BinaryOp", inputs, {name}, "0=2");
      case Op::kConcat:
        return Line("Concat", inputs, {name}, "0=0");
      case Op::kCrop:
        return Line("Crop", inputs, {name},
                    absl::StrCat("-23309=2,", layer.crop_px, ",", layer.crop_px, " -23310=2,",
                                 -layer.crop_px, ",", -layer.crop_px, " -23311=2,1,2"));
      case Op::kPad:
        return Line("Padding", inputs, {name}, PadParams(layer));
      case Op::kAffine:
        Line("Scale", inputs, {name}, absl::StrCat("0=", layer.out_channels, " 1=1"));
        Append(layer.weights);
        return Append(layer.bias);
      case Op::kGlobalAveragePool:
        return Line("Pooling", inputs, {name}, "0=1 4=1");
      case Op::kFullyConnected:
        Line("InnerProduct", inputs, {name},
             absl::StrCat("0=", layer.out_channels, " 1=1 2=", layer.weights.size()));
        AppendTagged(layer.weights);
        return Append(layer.bias);
      case Op::kActivation:
        return Line("Split", inputs, {name}, "");
      case Op::kSlice:
      case Op::kPixelNorm:
      case Op::kGroupNorm:
      case Op::kSample:
      case Op::kWindowAttention:
      case Op::kChannelProducts:
      case Op::kChannelAttention:
      case Op::kPartAttention:
      case Op::kGridToWindows:
      case Op::kWindowsToGrid:
      case Op::kMaxPool:
      case Op::kAddResized:
        return;  // refused before
    }
  }

  static std::string PadParams(const Layer& layer) {
    const int mode = layer.pad_mode == PadMode::kConstant    ? 0
                     : layer.pad_mode == PadMode::kReplicate ? 1
                                                             : 2;
    return absl::StrCat("0=", layer.padding_px, " 1=", layer.padding_px, " 2=", layer.padding_px,
                        " 3=", layer.padding_px, " 4=", mode, " 5=", Exactly(layer.pad_value));
  }

  void Activate(const Layer& layer, const std::vector<std::string>& inputs,
                const std::string& name) {
    switch (layer.activation) {
      case Activation::kNone:
        return;
      case Activation::kRelu:
        return Line("ReLU", inputs, {name}, "");
      case Activation::kLeakyRelu:  // with one slope
      case Activation::kPRelu:
        Line("PReLU", inputs, {name}, absl::StrCat("0=", layer.slope.size()));
        return Append(layer.slope);
      case Activation::kSigmoid:
        return Line("Sigmoid", inputs, {name}, "");
      case Activation::kSilu:
        return Line("Swish", inputs, {name}, "");
      case Activation::kMish:
        return Line("Mish", inputs, {name}, "");
      case Activation::kGelu:
        return Line("GELU", inputs, {name}, "0=0");
      case Activation::kGeluTanh:
        return Line("GELU", inputs, {name}, "0=1");
      case Activation::kSoftplus:
        return Line("Softplus", inputs, {name}, "");
      case Activation::kClip:
        return Line("Clip", inputs, {name},
                    absl::StrCat("0=", Exactly(layer.clip_min), " 1=", Exactly(layer.clip_max)));
    }
  }

  const Network& network_;
  std::vector<int> readers_;     // of each layer
  std::vector<Result> results_;  // likewise
  std::vector<std::string> lines_;
  size_t blobs_ = 0;
  std::string bin_;
};

}  // namespace

absl::StatusOr<NcnnFilePair> ExportNcnn(const Network& network) {
  for (const Layer& layer : network.layers) {
    const bool aligns = layer.op == Op::kPad && layer.factor > 1;
    const bool refused = layer.op == Op::kSlice || layer.op == Op::kPixelNorm ||
                         layer.op == Op::kGroupNorm || IsExactOnly(layer);
    if (!refused && !aligns) continue;
    return absl::UnimplementedError(
        absl::StrCat("layer ", Quote(layer.name), " is a ", ToAbsl(OpName(layer.op)),
                     aligns ? " to multiples" : "", ", which is not exported to ncnn"));
  }
  return NcnnWriter(network).Write();
}

}  // namespace upscaled
