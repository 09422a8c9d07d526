#include "engine/model/architectures/scunet.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/planes.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kScunetAlignPx = 64;  // the smallest level has windows of 8 for 8 pixels each
constexpr int kHeadChannels = 32;   // which no tensor tells
constexpr NetworkBuilder::ConvOptions kScunetHalve = {.stride_px = 2, .padding_px = 0};

// Module `index` of a sequence.
std::string ScunetModule(const std::string& sequence, int index) {
  return absl::StrCat(sequence, ".", index);
}

bool IsBlock(const TensorFile& file, const std::string& module) {
  return file.Has(module + ".trans_block.ln1.weight");
}

// [head][row][column] as one row for each distance, with a column for each head.
std::vector<float> HeadsLast(const std::vector<float>& table, int64_t heads) {
  const size_t places = table.size() / heads;
  std::vector<float> result(table.size());
  for (size_t i = 0; i < table.size(); ++i) result[i % places * heads + i / places] = table[i];
  return result;
}

int AttendInShare(NetworkBuilder& builder, int x, const std::string& name, bool shifts) {
  const std::string table_name = name + ".relative_position_params";
  const std::vector<int64_t> shape = builder.Shape(table_name, 3);
  if (!builder.ok()) return 0;
  const int64_t heads = shape[0], window = (shape[1] + 1) / 2;
  const int channels = builder.Channels(x);
  const bool sound = heads * kHeadChannels == channels && window >= 1 && window <= kMaxWindowPx &&
                     shape[1] == 2 * window - 1 && shape[2] == shape[1];
  if (!sound) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quote(table_name), " of ", DescribeShape(shape), " must be a head for every ",
        kHeadChannels, " of ", channels, " channels, of windows of 1..", kMaxWindowPx, " pixels")));
  }
  if (!builder.ok() ||
      !AcceptHeads(builder, table_name, heads, channels, window * window * window * window)) {
    return 0;
  }
  const int window_px = static_cast<int>(window);
  const std::vector<float> table = HeadsLast(builder.Read(table_name, shape), heads);
  Layer qkv = builder.ReadLinear(name + ".embedding_layer", channels);
  if (!builder.ok()) return 0;
  ScaleQueries(qkv, static_cast<int>(heads));
  const WindowAxis windows = RolledWindows(window_px, shifts ? window_px / 2 : 0);
  Layer attention{.op = Op::kWindowAttention,
                  .name = name,
                  .groups = static_cast<int>(heads),
                  .window_x = windows,
                  .window_y = windows};
  attention.weights = ExpandBias(table, attention.groups, window_px, window_px);
  x = builder.WindowAttention(builder.Conv(x, std::move(qkv)), std::move(attention));
  return builder.Linear(x, name + ".linear");
}

// The first channels are convolved, the others attend.
int AddScunetBlock(NetworkBuilder& builder, int x, const std::string& block, bool shifts) {
  constexpr NetworkBuilder::ConvOptions kRelu = {.activation = Activation::kRelu};
  const int mixed = builder.Conv(x, block + ".conv1_1", {});
  const auto convolved = static_cast<int>(builder.Shape(block + ".conv_block.0.weight", 4)[0]);
  if (!builder.ok()) return 0;
  const int near = builder.Slice(mixed, 0, convolved);
  const int convs =
      builder.Conv(builder.Conv(near, block + ".conv_block.0", kRelu), block + ".conv_block.2", {});
  int y = builder.Slice(mixed, convolved, builder.Channels(mixed) - convolved);
  const std::string attends = block + ".trans_block.";
  const int normal = builder.LayerNorm(y, attends + "ln1", kLayerNormEpsilon);
  y = builder.Add(AttendInShare(builder, normal, attends + "msa", shifts), y);
  const int wide = builder.LayerNorm(y, attends + "ln2", kLayerNormEpsilon);
  y = builder.Add(Mlp(builder, wide, attends + "mlp.0", attends + "mlp.2"), y);
  const int joined = builder.Concat({builder.Add(convs, near), y});
  return builder.Add(builder.Conv(joined, block + ".conv1_2", {}), x);
}

// The blocks of a sequence from module `first` on, every other one with its windows shifted; `next`
// is the module behind them.
int AddScunetBlocks(NetworkBuilder& builder, int x, const std::string& sequence, int first,
                    int& next) {
  next = first;
  for (; builder.ok() && IsBlock(builder.file(), ScunetModule(sequence, next)); ++next) {
    x = AddScunetBlock(builder, x, ScunetModule(sequence, next), (next - first) % 2 == 1);
  }
  return x;
}

int AddScunetDown(NetworkBuilder& builder, int x, const std::string& sequence) {
  int last = 0;
  x = AddScunetBlocks(builder, x, sequence, 0, last);
  return builder.Conv(x, ScunetModule(sequence, last), kScunetHalve);
}

int AddScunetUp(NetworkBuilder& builder, int x, const std::string& sequence) {
  int last = 0;
  x = builder.ConvTranspose(x, ScunetModule(sequence, 0), kScunetHalve);
  return AddScunetBlocks(builder, x, sequence, 1, last);
}

}  // namespace

bool RecogniseScunet(const TensorFile& file) {
  return file.Has("m_head.0.weight") && IsBlock(file, "m_body.0") && IsBlock(file, "m_down1.0") &&
         file.Has("m_tail.0.weight");
}

absl::StatusOr<int> ScunetScale(const TensorFile& /*file*/) { return 1; }

void BuildScunet(NetworkBuilder& builder) {
  const int64_t planes = builder.Shape("m_head.0.weight", 4)[1];
  if (!builder.ok()) return;
  if (const absl::Status status = CheckPlanes(planes); !status.ok()) return builder.Fail(status);
  const int padded = builder.Pad(builder.Input(), 0, PadMode::kReplicate, kScunetAlignPx);
  const int head = builder.Conv(PlanesOf(builder, padded, planes), "m_head.0", {});
  const int half = AddScunetDown(builder, head, "m_down1");
  const int quarter = AddScunetDown(builder, half, "m_down2");
  const int eighth = AddScunetDown(builder, quarter, "m_down3");
  int last = 0;
  int x = AddScunetBlocks(builder, eighth, "m_body", 0, last);
  x = AddScunetUp(builder, builder.Add(x, eighth), "m_up3");
  x = AddScunetUp(builder, builder.Add(x, quarter), "m_up2");
  x = AddScunetUp(builder, builder.Add(x, half), "m_up1");
  x = builder.Conv(builder.Add(x, head), "m_tail.0", {});
  RgbOf(builder, padded, x, planes, 1);
}

}  // namespace upscaled
