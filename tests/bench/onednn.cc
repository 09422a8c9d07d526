#include "tests/bench/onednn.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/base/status_macros.h"
#include "engine/model/shapes.h"
#include "engine/pipeline/tile_grid.h"
#include "tests/bench/onednn_convolution.h"

namespace upscaled::bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Layout = memory::format_tag;

// For a network: the variant where it is there and faster than the direct one.
absl::StatusOr<OnednnConvolution> BestConvolution(OnednnDevice& device, const Layer& layer, Size in,
                                                  OnednnVariant variant) {
  absl::StatusOr<OnednnConvolution> wanted = MakeOnednnConvolution(device, layer, in, variant);
  if (variant != OnednnVariant::kWinograd) return wanted;
  absl::StatusOr<OnednnConvolution> direct =
      MakeOnednnConvolution(device, layer, in, OnednnVariant::kDirect);
  if (!wanted.ok()) return direct;
  if (direct.ok() && SecondsOf(device, *direct) < SecondsOf(device, *wanted)) return direct;
  return wanted;
}

// A network's convolutions for tiles of one size, between two alternating buffers.
class Chain {
 public:
  static absl::StatusOr<std::unique_ptr<Chain>> Create(OnednnDevice& device, const Network& network,
                                                       Size tile, OnednnVariant variant) {
    std::unique_ptr<Chain> chain(new Chain(device));
    const std::vector<Size> sizes = LayerSizes(network, tile);
    for (size_t i = 1; i < network.layers.size(); ++i) {
      const Layer& layer = network.layers[i];
      const Size in = sizes[layer.inputs[0]];
      if (layer.op == Op::kResizeNearest && i == 1) chain->enlarge_ = layer.factor;
      if (layer.op != Op::kConv && layer.op != Op::kConvTranspose) continue;
      ASSIGN_OR_RETURN(chain->convolutions_.emplace_back(),
                       BestConvolution(device, layer, in, variant));
      if (chain->input_size_ == Size()) chain->input_size_ = in;
    }
    if (chain->convolutions_.empty()) {
      return absl::UnimplementedError("the network has no convolution");
    }
    chain->Connect(variant == OnednnVariant::kInt8 ? 1 : kOnednnFullScale);
    return chain;
  }

  // Pixels of the source from `corner` on, possibly outside it: its border is replicated.
  void Run(const ImageView& source, int corner_x, int corner_y) {
    auto* to = static_cast<uint8_t*>(input_.get_data_handle());
    for (int y = 0; y < input_size_.height; ++y) {
      const int from_y = std::clamp(corner_y + y / enlarge_, 0, source.height_px() - 1);
      const uint8_t* row = source.row(from_y);
      for (int x = 0; x < input_size_.width; ++x, to += 3) {
        const int from_x = std::clamp(corner_x + x / enlarge_, 0, source.spec.width_px - 1);
        std::copy_n(row + size_t{3} * from_x, 3, to);
      }
    }
    for (const Step& step : steps_) step.primitive.execute(device_.stream, step.arguments);
    device_.stream.wait();
  }

 private:
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
  };

  explicit Chain(OnednnDevice& device) : device_(device) {}

  memory InTurn(const memory::desc& desc) {
    turn_ ^= 1;
    return memory(desc, device_.engine, buffers_[turn_].data());
  }

  void AddReorder(const memory& from, const memory& to, float scale) {
    steps_.push_back({MakeOnednnReorder(device_, from.get_desc(), to.get_desc(), scale),
                      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
  }

  // u8 image -> first layout -> ... -> last layout -> u8 image.
  void Connect(float full_scale) {
    size_t bytes = 0;
    for (const OnednnConvolution& c : convolutions_) {
      bytes = std::max({bytes, c.src.get_size(), c.dst.get_size()});
    }
    for (cpu::HugeBuffer& buffer : buffers_) buffer.Reserve(bytes / sizeof(float) + 1);
    input_ = memory({OnednnDims(3, input_size_), Type::u8, Layout::nhwc}, device_.engine);
    memory last = input_;
    float scale = 1 / full_scale;
    for (const OnednnConvolution& convolution : convolutions_) {
      if (last.get_desc() != convolution.src) {
        const memory src = InTurn(convolution.src);
        AddReorder(last, src, scale);
        last = src;
      }
      scale = 1;
      const memory dst = InTurn(convolution.dst);
      steps_.push_back({convolution.primitive,
                        {{DNNL_ARG_SRC, last},
                         {DNNL_ARG_WEIGHTS, convolution.weights},
                         {DNNL_ARG_BIAS, convolution.bias},
                         {DNNL_ARG_DST, dst}}});
      last = dst;
    }
    output_ = memory({last.get_desc().dims(), Type::u8, Layout::nhwc}, device_.engine);
    AddReorder(last, output_, full_scale);
  }

  OnednnDevice& device_;
  int enlarge_ = 1;
  Size input_size_;
  std::vector<OnednnConvolution> convolutions_;
  std::array<cpu::HugeBuffer, 2> buffers_;
  int turn_ = 0;
  memory input_, output_;
  std::vector<Step> steps_;
};

// oneDNN's matrices are rows of adjacent values, `a` perhaps the other way round.
void Multiply(const train::ProductArgs<float>& args) {
  omp_set_num_threads(1);  // of the calling thread
  const bool transposed = args.a_row == 1;
  dnnl_sgemm(transposed ? 'T' : 'N', 'N', args.rows, args.columns, args.depth, 1.0f, args.a,
             static_cast<dnnl_dim_t>(transposed ? args.a_depth : args.a_row), args.b,
             static_cast<dnnl_dim_t>(args.b_stride), args.add ? 1.0f : 0.0f, args.c,
             static_cast<dnnl_dim_t>(args.c_stride));
}

}  // namespace

bool HasOnednn() { return true; }

absl::StatusOr<std::function<void()>> MakeOnednnLayer(const Layer& layer, Size output,
                                                      OnednnVariant variant) try {
  omp_set_num_threads(1);
  auto device = std::make_shared<OnednnDevice>();
  const Size input{(output.width - 1) * layer.stride_px + layer.kernel_px - 2 * layer.padding_px,
                   (output.height - 1) * layer.stride_px + layer.kernel_px - 2 * layer.padding_px};
  if (layer.op != Op::kConv) return absl::UnimplementedError("not a convolution");
  ASSIGN_OR_RETURN(const OnednnConvolution convolution,
                   MakeOnednnConvolution(*device, layer, input, variant));
  const memory src = MakeOnednnInput(*device, convolution), dst(convolution.dst, device->engine);
  const auto run = [device, convolution, src, dst] {
    convolution.Run(*device, src, dst);
    device->stream.wait();
  };
  run();  // what fails, fails here
  return run;
} catch (const dnnl::error& e) {
  return absl::InternalError(absl::StrCat("oneDNN: ", e.what()));
}

absl::StatusOr<std::function<void()>> MakeOnednnNetwork(const Network& network,
                                                        const ImageView& source, Size tile,
                                                        OnednnVariant variant) try {
  omp_set_num_threads(1);
  auto device = std::make_shared<OnednnDevice>();
  const TileGrid grid(source.spec.size(), tile);
  std::map<std::pair<int, int>, std::shared_ptr<Chain>> chains;  // by tile size
  struct Work {
    std::shared_ptr<Chain> chain;
    int corner_x, corner_y;
  };
  std::vector<Work> work;
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      const Rect rect = grid.Tile(column, row);
      std::shared_ptr<Chain>& chain = chains[{rect.width, rect.height}];
      if (chain == nullptr) {
        ASSIGN_OR_RETURN(chain,
                         Chain::Create(*device, network, {rect.width, rect.height}, variant));
      }
      work.push_back({chain, rect.x - network.pad_px, rect.y - network.pad_px});
    }
  }
  const auto run = [device, work, source] {
    for (const Work& tile : work) tile.chain->Run(source, tile.corner_x, tile.corner_y);
  };
  run();  // what fails, fails here
  return run;
} catch (const dnnl::error& e) {
  return absl::InternalError(absl::StrCat("oneDNN: ", e.what()));
}

train::ProductFunction<float> OnednnProduct() { return &Multiply; }

}  // namespace upscaled::bench
