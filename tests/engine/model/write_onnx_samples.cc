// Writes networks as ONNX files, each with an image and what the reference makes of it, for
// onnxruntime_test.py: the bundled ones, the families published as weights only, and random ones of
// every operation.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/onnx/exporter.h"
#include "engine/model/repository.h"
#include "engine/model/tensors/safetensors.h"
#include "engine/model/tensors/safetensors_writer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/model/published_shapes.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr int kRandomNetworks = 30;

// The bytes of float pixels: one plane after the other.
std::string Planes(const Image& image) {
  const ImageView view = image.view();
  std::string bytes;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < view.height_px(); ++y) {
      for (int x = 0; x < view.width_px(); ++x) {
        bytes.append(reinterpret_cast<const char*>(&view.row_as<float>(y)[3 * x + c]),
                     sizeof(float));
      }
    }
  }
  return bytes;
}

void Write(const path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

absl::StatusOr<nlohmann::json> WriteSample(const path& folder, const std::string& name,
                                           const Network& network, std::mt19937& random) {
  ASSIGN_OR_RETURN(const std::string onnx, ExportOnnx(network));
  const Image source = test::RandomImage({17, 11, 3, SampleType::kF32}, random);
  const Size size = source.spec().size();
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
  ASSIGN_OR_RETURN(const auto backend, CreateReferenceBackend({}));
  ASSIGN_OR_RETURN(const auto executable, backend->Compile(network, Precision::kExact));
  RETURN_IF_ERROR(
      test::RunImage(*backend->CreateStream(), *executable,
                     {test::WholeTask(*executable, source.view(), result.mutable_view())}));
  Write(folder / (name + ".onnx"), onnx);
  Write(folder / (name + ".in"), Planes(source));
  Write(folder / (name + ".out"), Planes(result));
  return nlohmann::json{
      {"name", name}, {"width", size.width}, {"height", size.height}, {"scale", network.scale}};
}

// ONNX Runtime 1.14 has operator sets up to 18: GELU is of 20, RMSNormalization of 23. Group norms
// are not exported; of pads to multiples, export_test tells which are.
bool IsBeyondIt(const Network& network) {
  return std::any_of(network.layers.begin(), network.layers.end(), [](const Layer& layer) {
    return layer.activation == Activation::kGelu || layer.activation == Activation::kGeluTanh ||
           (layer.op == Op::kPixelNorm && !layer.centred) || layer.op == Op::kGroupNorm ||
           (layer.op == Op::kPad && layer.factor > 1);
  });
}

struct Published {
  const char* name;
  test::Shapes shapes;
  float gain = 1;  // of a convolution
};

// A network of these tensors, with values that keep its pixels near 1.
absl::StatusOr<Network> RandomPublished(const Published& published, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<NamedTensor> tensors;
  for (const test::NamedShape& shape : published.shapes) {
    NamedTensor& tensor = tensors.emplace_back(NamedTensor{shape.name, shape.shape, {}});
    int64_t count = 1;
    for (const int64_t side : shape.shape) count *= side;
    const float inputs = static_cast<float>(count) / static_cast<float>(shape.shape[0]);
    for (int64_t i = 0; i < count; ++i) {
      tensor.values.push_back(
          normal(random) * (shape.shape.size() == 1 ? 0.25f : published.gain / std::sqrt(inputs)));
    }
  }
  ASSIGN_OR_RETURN(const auto file, ParseSafetensors(WriteSafetensors(tensors)));
  return BuildNetwork(*file, "");
}

absl::Status WriteSamples(const path& folder) {
  std::mt19937 random = test::FreshRandom();
  nlohmann::json samples = nlohmann::json::array();
  ASSIGN_OR_RETURN(const ModelRepository bundled, ModelRepository::Open({UPSCALED_BUNDLED_MODELS}));
  for (const ModelCard& card : bundled.models()) {
    ASSIGN_OR_RETURN(const Network network, LoadNetwork(card, card.variants.front()));
    ASSIGN_OR_RETURN(samples.emplace_back(), WriteSample(folder, card.name, network, random));
  }
  const Published kPublished[] = {
      {"esrgan-x4", test::Esrgan(3, 2)},
      {"esrgan-x2-blocks", test::Esrgan(12, 2)},
      // At a gain of 1, its blocks made 3.3e-4 of fp32's rounding at one seed.
      {"span", test::Span(4, true), 0.7f},
      {"compact", test::Compact(4, true)},
      {"dis", test::Dis(2)},
      {"artcnn-luma", test::ArtCnn(1, 2)},
      {"plksr", test::Plksr(true, true)},
      {"mosr", test::Mosr(true)},
      {"cunet-x1", test::Cunet(1)},
      {"cunet-x2", test::Cunet(2)}};
  for (const Published& published : kPublished) {
    ASSIGN_OR_RETURN(const Network network, RandomPublished(published, random));
    if (IsBeyondIt(network)) continue;
    ASSIGN_OR_RETURN(samples.emplace_back(), WriteSample(folder, published.name, network, random));
  }
  for (int i = 0; i < kRandomNetworks; ++i) {
    Network network = test::RandomNetwork(random);
    while (IsBeyondIt(network)) network = test::RandomNetwork(random);
    ASSIGN_OR_RETURN(samples.emplace_back(),
                     WriteSample(folder, "random" + std::to_string(i), network, random));
  }
  Write(folder / "samples.json", samples.dump());
  return absl::OkStatus();
}

}  // namespace
}  // namespace upscaled

int main(int, char** argv) {
  const absl::Status written = upscaled::WriteSamples(argv[1]);
  if (!written.ok()) std::fprintf(stderr, "%s\n", written.ToString().c_str());
  return written.ok() ? 0 : 1;
}
