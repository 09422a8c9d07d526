#include "engine/train/ncnn_writer.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/check.h"
#include "engine/model/ncnn_param.h"

namespace upscaled::train {
namespace {

class Writer {
 public:
  explicit Writer(const Network& network) : network_(network), readers_(network.layers.size()) {
    for (const Layer& layer : network.layers) {
      for (const int input : layer.inputs) ++readers_[input];
    }
    blobs_.resize(network.layers.size());
  }

  NcnnModel Write() {
    for (size_t i = 0; i < network_.layers.size(); ++i) WriteLayer(i);
    return {
        absl::StrCat(std::string(kNcnnMagic), "\n", layer_count_, " ", blob_count_, "\n", lines_),
        std::move(bin_)};
  }

 private:
  // A line of the text: type, name, inputs and outputs, parameters.
  void Line(const std::string& type, const std::string& name,
            const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
            const std::string& params) {
    absl::StrAppendFormat(&lines_, "%-16s %-24s %d %d", type, name, inputs.size(), outputs.size());
    for (const auto* blobs : {&inputs, &outputs}) {
      for (const std::string& blob : *blobs) absl::StrAppend(&lines_, " ", blob);
    }
    absl::StrAppend(&lines_, params, "\n");
    ++layer_count_;
    blob_count_ += outputs.size();
  }

  void Floats(const std::vector<float>& values) {
    bin_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }

  // Every blob is read once: one with several readers is split.
  std::string TakeBlob(int layer) {
    std::string blob = blobs_[layer].back();
    blobs_[layer].pop_back();
    return blob;
  }

  void WriteLayer(size_t index) {
    const Layer& layer = network_.layers[index];
    std::vector<std::string> inputs;
    for (const int input : layer.inputs) inputs.push_back(TakeBlob(input));
    std::string blob = absl::StrCat("blob", index);
    const bool plain = layer.activation == Activation::kNone || layer.op == Op::kActivation;
    if (layer.op != Op::kActivation) {
      WriteOperation(layer, absl::StrCat("layer", index), inputs, plain ? blob : blob + "_plain");
      inputs = {blob + "_plain"};
    }
    if (layer.activation != Activation::kNone) {
      WriteActivation(layer, absl::StrCat("layer", index, "_activation"), inputs, blob);
    }
    blobs_[index] = {blob};
    if (readers_[index] > 1) {
      blobs_[index].clear();
      for (int i = 0; i < readers_[index]; ++i) {
        blobs_[index].push_back(absl::StrCat(blob, "_", i));
      }
      Line("Split", absl::StrCat("split", index), {blob}, blobs_[index], "");
    }
  }

  void WriteOperation(const Layer& layer, const std::string& name,
                      const std::vector<std::string>& inputs, const std::string& blob) {
    switch (layer.op) {
      case Op::kInput:
        return Line("Input", name, inputs, {blob}, "");
      case Op::kConv:
      case Op::kConvTranspose:
        return WriteConvolution(layer, name, inputs, blob);
      case Op::kAdd:
        return Line("BinaryOp", name, inputs, {blob}, " 0=0");
      case Op::kCrop:
        return Line("Crop", name, inputs, {blob},
                    absl::StrFormat(" -23309=2,%1$d,%1$d -23310=2,-%1$d,-%1$d -23311=2,1,2",
                                    layer.crop_px));
      case Op::kResizeNearest:
        return Line("Interp", name, inputs, {blob},
                    absl::StrFormat(" 0=1 1=%1$d.0 2=%1$d.0", layer.factor));
      case Op::kPixelShuffle:
        return Line("PixelShuffle", name, inputs, {blob}, absl::StrCat(" 0=", layer.factor));
      default:
        UPSCALED_CHECK(false);
    }
  }

  void WriteConvolution(const Layer& layer, const std::string& name,
                        const std::vector<std::string>& inputs, const std::string& blob) {
    const bool transposed = layer.op == Op::kConvTranspose;
    Line(transposed ? "Deconvolution" : "Convolution", name, inputs, {blob},
         absl::StrFormat(" 0=%d 1=%d 3=%d 4=%d 5=1 6=%d", layer.out_channels, layer.kernel_px,
                         layer.stride_px, layer.padding_px, layer.weights.size()));
    Floats({0.0f});  // the tag of plain floats, a zero
    Floats(transposed ? OutputFirst(layer) : layer.weights);
    Floats(layer.bias);
  }

  // [in][out][kernel][kernel] as [out][in][kernel][kernel].
  static std::vector<float> OutputFirst(const Layer& layer) {
    const size_t taps = size_t{1} * layer.kernel_px * layer.kernel_px;
    std::vector<float> weights;
    for (int o = 0; o < layer.out_channels; ++o) {
      for (int i = 0; i < layer.in_channels; ++i) {
        const auto filter = layer.weights.begin() + (i * layer.out_channels + o) * taps;
        weights.insert(weights.end(), filter, filter + taps);
      }
    }
    return weights;
  }

  void WriteActivation(const Layer& layer, const std::string& name,
                       const std::vector<std::string>& inputs, const std::string& blob) {
    if (layer.activation == Activation::kPRelu) {
      Line("PReLU", name, inputs, {blob}, absl::StrCat(" 0=", layer.slope.size()));
      return Floats(layer.slope);
    }
    const float slope = layer.activation == Activation::kLeakyRelu ? layer.slope[0] : 0;
    Line("ReLU", name, inputs, {blob}, absl::StrFormat(" 0=%.9e", slope));
  }

  const Network& network_;
  std::vector<int> readers_;                     // of each layer's result
  std::vector<std::vector<std::string>> blobs_;  // that stand for a layer's result, not read yet
  std::string lines_, bin_;
  size_t layer_count_ = 0, blob_count_ = 0;
};

}  // namespace

NcnnModel WriteNcnn(const Network& network) { return Writer(network).Write(); }

}  // namespace upscaled::train
