#include "engine/model/onnx/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/limits.h"
#include "engine/model/onnx/attention_claims.h"
#include "engine/model/onnx/node_index.h"
#include "engine/model/onnx/plane_numbers.h"
#include "engine/model/onnx/tensor.h"

namespace upscaled::onnx {
namespace {

constexpr int kMaxSteps = 16;  // of a chain of nodes
constexpr int64_t kToTheEnd = std::numeric_limits<int32_t>::max();

using Perm = std::vector<int64_t>;

// Planes cut into windows.
struct Windows {
  std::string planes;                             // [n][row][column][channel]
  std::array<int64_t, 2> window = {}, roll = {};  // rows, columns
  bool of_rows = false;                           // pixels in a row were laid out as planes
};

// The scores of a softmax: queries times keys, times how sharp a head looks, a bias, and a mask.
struct Scores {
  std::string queries, keys, sharpness, bias, mask;
};

// A third of the projection.
struct Part {
  std::string projected;  // [window][pixel][channel]
  int64_t number = 0, heads = 0;
};

// A found attention, by the names of values.
struct Found {
  std::string product;    // of planes' windows and the weights
  std::string planes;     // instead of the windows
  std::string attended;   // what the second projection reads
  TensorProto bias;       // that the attention reads
  NodeProto attention;    // gives it instead
  std::string result;     // planes again
  std::string projected;  // gives it instead
};

class Attentions {
 public:
  explicit Attentions(GraphProto& graph) : graph_(graph), nodes_(graph) {}

  void Replace() {
    std::vector<Found> all;
    for (const NodeProto& node : graph_.node()) {
      if (node.op_type() != "Softmax" || node.input_size() != 1) continue;
      if (std::optional<Found> found = Match(node)) all.push_back(*std::move(found));
    }
    if (all.empty()) return;
    const std::map<std::string, int> before = CountReaders(graph_);
    // The first of a name, as `nodes_` has it; a second one is refused later.
    std::map<std::string, NodeProto*> givers;
    for (NodeProto& node : *graph_.mutable_node()) {
      for (const std::string& output : node.output()) givers.emplace(output, &node);
    }
    for (Found& found : all) {
      *graph_.add_initializer() = std::move(found.bias);
      givers.at(found.product)->set_input(0, found.planes);
      ReplaceBy(found.attention, *givers.at(found.attended));
      NodeProto identity;
      identity.set_op_type("Identity");
      identity.add_input(found.projected);
      ReplaceBy(identity, *givers.at(found.result));
    }
    RemoveUnread(before, graph_);
  }

 private:
  static void ReplaceBy(const NodeProto& other, NodeProto& node) {
    node.set_op_type(other.op_type());
    *node.mutable_input() = other.input();
    *node.mutable_attribute() = other.attribute();
  }

  // A constant of one whole number, or of one number for each axis.
  std::optional<int64_t> Int(const std::string& name) const {
    const std::optional<double> number = nodes_.Number(name);
    if (!number || std::abs(*number) > 1e18) return std::nullopt;
    const TensorProto* constant = nodes_.Constant(name);
    const auto ints = constant == nullptr ? std::vector<int64_t>()
                                          : ReadInts(*constant).value_or(std::vector<int64_t>());
    return ints.size() == 1 ? std::optional<int64_t>(ints[0]) : std::nullopt;
  }
  // Number `i` of a shape, if it is a constant.
  std::optional<int64_t> Element(const std::string& shape, int i) const {
    if (const TensorProto* constant = nodes_.Constant(shape)) {
      const std::vector<int64_t> ints = ReadInts(*constant).value_or(std::vector<int64_t>());
      return i < std::ssize(ints) ? std::optional<int64_t>(ints[i]) : std::nullopt;
    }
    const NodeProto* concat = nodes_.Find(shape);
    if (concat == nullptr || concat->op_type() != "Concat" || i >= concat->input_size()) {
      return std::nullopt;
    }
    return Int(concat->input(i));
  }
  int64_t IntAttribute(const NodeProto& node, std::string_view name, int64_t missing) const {
    const AttributeProto* attribute = NodeIndex::Attribute(node, name);
    return attribute == nullptr ? missing : attribute->i();
  }
  bool Transposes(const NodeProto* node, const Perm& perm) const {
    if (node == nullptr || node->op_type() != "Transpose") return false;
    const AttributeProto* given = NodeIndex::Attribute(*node, "perm");
    return given != nullptr && Perm(given->ints().begin(), given->ints().end()) == perm;
  }
  std::optional<std::string> BeforeTranspose(const std::string& name, const Perm& perm) const {
    const NodeProto* node = nodes_.Find(nodes_.Origin(name));
    return Transposes(node, perm) ? std::optional(node->input(0)) : std::nullopt;
  }

  // From `start` on, before `end`, of one axis.
  struct Slice {
    std::string of;
    int64_t axis, start;
    std::optional<int64_t> end;  // if it is a constant
    std::string end_name;
  };
  std::optional<Slice> AsSlice(const NodeProto* node) const {
    if (node == nullptr || node->op_type() != "Slice" || node->input_size() < 4 ||
        node->output_size() != 1) {
      return std::nullopt;
    }
    const std::optional<int64_t> start = Int(node->input(1)), axis = Int(node->input(3));
    const bool steps = node->input_size() > 4 && Int(node->input(4)) != 1;
    if (!start || !axis || steps) return std::nullopt;
    return Slice{node->input(0), *axis, *start, Int(node->input(2)), node->input(2)};
  }
  // Whether it ends where the axis does; a computed number is checked later.
  static bool GoesToTheEnd(const Slice& slice, AttentionClaims& claims) {
    if (slice.end) return *slice.end >= kToTheEnd;
    claims.ends.emplace_back(slice.end_name, slice.axis);
    return true;
  }

  // Planes rolled along an axis: the part behind `by`, then the part before it.
  struct Roll {
    std::string of, gives;
    int64_t axis, by;
  };
  std::optional<Roll> AsRoll(const NodeProto* concat, AttentionClaims& claims) const {
    if (concat == nullptr || concat->op_type() != "Concat" || concat->input_size() != 2 ||
        concat->output_size() != 1) {
      return std::nullopt;
    }
    const std::optional<Slice> first = AsSlice(nodes_.Find(concat->input(0)));
    const std::optional<Slice> second = AsSlice(nodes_.Find(concat->input(1)));
    const int64_t axis = IntAttribute(*concat, "axis", -1);
    const bool rolls = first && second && first->of == second->of && first->axis == axis &&
                       second->axis == axis && second->start == 0 && second->end == first->start &&
                       first->start >= -kMaxWindowPx && first->start <= kMaxWindowPx &&
                       (axis == 1 || axis == 2) && GoesToTheEnd(*first, claims);
    return rolls ? std::optional(Roll{first->of, concat->output(0), axis, first->start})
                 : std::nullopt;
  }

  // Up from windows of pixels to the planes.
  std::optional<Windows> WindowsOf(const std::string& pixels, AttentionClaims& claims) const {
    const NodeProto* cut = nodes_.Find(pixels, "Reshape", 2);
    std::string rows = cut ? cut->input(0) : "";
    // Some code has windows as squares first.
    if (const NodeProto* squares = cut ? nodes_.Find(rows, "Reshape", 2) : nullptr) {
      claims.inner.push_back(rows);
      claims.squares.push_back(squares->input(1));
      rows = squares->input(0);
    }
    const auto parts = cut ? BeforeTranspose(rows, {0, 1, 3, 2, 4, 5}) : std::nullopt;
    const NodeProto* split = parts ? nodes_.Find(*parts, "Reshape", 2) : nullptr;
    if (split == nullptr) return std::nullopt;
    const std::optional<int64_t> height = Element(split->input(1), 2),
                                 width = Element(split->input(1), 4);
    const auto is_side = [](const std::optional<int64_t>& side) {
      return side && *side >= 1 && *side <= kMaxWindowPx;
    };
    if (!is_side(height) || !is_side(width)) return std::nullopt;
    claims.tokens = nodes_.Origin(pixels);
    claims.cut = cut->input(1);
    claims.split = split->input(1);
    Windows windows{.planes = split->input(0), .window = {*height, *width}};
    claims.planes.insert(nodes_.Origin(windows.planes));
    for (int i = 0; i < 2; ++i) {
      const auto roll = AsRoll(nodes_.Find(nodes_.Origin(windows.planes)), claims);
      if (!roll) break;
      if (windows.roll[roll->axis - 1] != 0) return std::nullopt;
      windows.roll[roll->axis - 1] = roll->by;
      windows.planes = roll->of;
      claims.planes.insert(nodes_.Origin(windows.planes));
    }
    // To whole windows.
    if (const NodeProto* pad = nodes_.Find(nodes_.Origin(windows.planes));
        pad != nullptr && pad->op_type() == "Pad" && PadsToWindows(*pad)) {
      windows.planes = pad->input(0);
      claims.pads = pad->input(1);
      claims.planes.insert(nodes_.Origin(windows.planes));
    } else if (const NodeProto* layout = nodes_.Find(nodes_.Origin(windows.planes), "Reshape", 2)) {
      claims.layout = layout->input(1);
      claims.sized_by = SizedBy(layout->input(1));
      windows.of_rows = true;
    }
    return windows;
  }
  // The planes with the sides of a shape [n][row][column][channel]; empty if they differ.
  std::string SizedBy(const std::string& shape) const {
    const NodeProto* concat = nodes_.Find(shape);
    if (concat == nullptr || concat->op_type() != "Concat" || concat->input_size() != 4) return "";
    const std::string height = Measured(concat->input(1)), width = Measured(concat->input(2));
    return height == width ? height : "";
  }
  // The value with the shape a number is taken from; empty if the number is from no shape.
  std::string Measured(std::string name) const {
    for (int i = 0; i < kMaxSteps; ++i) {
      const NodeProto* node = nodes_.Find(name);
      if (node == nullptr || node->input_size() < 1) return "";
      if (node->op_type() == "Shape") return nodes_.Origin(node->input(0));
      const bool passes = node->op_type() == "Unsqueeze" || node->op_type() == "Cast" ||
                          node->op_type() == "Gather" || node->op_type() == "Identity";
      if (!passes) return "";
      name = node->input(0);
    }
    return "";
  }
  // Whether it pads with zeros by numbers computed from the size; constants pad otherwise.
  bool PadsToWindows(const NodeProto& pad) const {
    const AttributeProto* mode = NodeIndex::Attribute(pad, "mode");
    const bool zeros =
        (mode == nullptr || mode->s() == "constant") && pad.input_size() >= 2 &&
        (pad.input_size() < 3 || pad.input(2).empty() || nodes_.Number(pad.input(2)) == 0.0);
    return zeros && nodes_.Constant(pad.input(1)) == nullptr;
  }

  // Before the value is multiplied with factors.
  std::string Unscaled(std::string name, AttentionClaims& claims) const {
    for (int i = 0; i < kMaxSteps; ++i) {
      const NodeProto* mul = nodes_.Find(name, "Mul", 2);
      if (mul == nullptr) break;
      claims.inner.push_back(name);
      claims.factors.push_back(mul->input(1));
      name = mul->input(0);
    }
    return name;
  }

  // Before the value is divided by its length along the last axis.
  std::optional<std::string> Undirected(const std::string& name, AttentionClaims& claims) const {
    const NodeProto* div = nodes_.Find(name, "Div", 2);
    const NodeProto* expand = div ? nodes_.Find(div->input(1), "Expand", 2) : nullptr;
    const NodeProto* clip = expand ? nodes_.Find(nodes_.Origin(expand->input(0))) : nullptr;
    if (clip == nullptr || !RaisesZero(*clip)) return std::nullopt;
    const NodeProto* length = nodes_.Find(nodes_.Origin(clip->input(0)));
    const NodeProto* shape = nodes_.Find(expand->input(1), "Shape", 1);
    const std::string of = nodes_.Origin(div->input(0));
    if (shape == nullptr || nodes_.Origin(shape->input(0)) != of || length == nullptr ||
        !MeasuresLastAxis(*length) || nodes_.Origin(length->input(0)) != of) {
      return std::nullopt;
    }
    claims.inner.insert(claims.inner.end(),
                        {name, div->input(1), expand->input(0), clip->input(0)});
    claims.measured.insert(of);
    return of;
  }
  // Whether it only keeps lengths from 0.
  bool RaisesZero(const NodeProto& clip) const {
    constexpr double kMaxLeast = 1e-6;
    if (clip.op_type() != "Clip" || clip.input_size() < 1) return false;
    if (clip.input_size() > 2 && !clip.input(2).empty()) return false;
    const AttributeProto* attribute = NodeIndex::Attribute(clip, "min");
    if (NodeIndex::Attribute(clip, "max") != nullptr) return false;
    const std::optional<double> least = attribute != nullptr    ? double{attribute->f()}
                                        : clip.input_size() > 1 ? nodes_.Number(clip.input(1))
                                                                : std::nullopt;
    return least && *least >= 0 && *least <= kMaxLeast;
  }
  bool MeasuresLastAxis(const NodeProto& length) const {
    if (length.op_type() != "ReduceL2" || IntAttribute(length, "keepdims", 1) != 1) return false;
    const AttributeProto* axes = NodeIndex::Attribute(length, "axes");
    const std::optional<int64_t> axis = axes != nullptr && axes->ints_size() == 1
                                            ? std::optional(axes->ints(0))
                                        : length.input_size() == 2 ? Int(length.input(1))
                                                                   : std::nullopt;
    return axis == -1 || axis == 3;
  }

  // Constants, and what is computed of these; nothing if there is more to it.
  std::optional<Numbers> Computed(const std::string& name) {
    return PlaneNumbers(nodes_, {}, budget_).Of(name);
  }

  std::optional<Scores> ScoresOf(const std::string& softmaxed, AttentionClaims& claims) const {
    Scores scores;
    std::vector<std::string> added;
    std::string name = softmaxed;
    for (int i = 0; i < kMaxSteps; ++i) {
      const NodeProto* node = nodes_.Find(nodes_.Origin(name));
      if (node == nullptr || node->input_size() != 2) return std::nullopt;
      claims.inner.push_back(name);
      if (node->op_type() == "Reshape") {
        claims.scores.push_back(node->input(1));
        name = node->input(0);
      } else if (node->op_type() == "Add" && scores.sharpness.empty() && added.size() < 2) {
        added.push_back(node->input(1));
        name = node->input(0);
      } else if (node->op_type() == "Mul" && scores.sharpness.empty()) {
        scores.sharpness = node->input(1);
        name = node->input(0);
      } else if (node->op_type() == "MatMul") {
        scores.queries = node->input(0);
        const auto keys = BeforeTranspose(node->input(1), {0, 1, 3, 2});
        if (!keys || added.empty()) return std::nullopt;
        scores.bias = added.back();
        if (added.size() > 1) scores.mask = added.front();
        claims.inner.push_back(node->input(1));
        scores.keys = *keys;
        return scores;
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<Part> PartOf(const std::string& name, AttentionClaims& claims) const {
    const NodeProto* gather = nodes_.Find(name, "Gather", 2);
    if (gather == nullptr || IntAttribute(*gather, "axis", 0) != 0) return std::nullopt;
    const std::optional<int64_t> number = Int(gather->input(1));
    const auto heads_first = BeforeTranspose(gather->input(0), {2, 0, 3, 1, 4});
    const NodeProto* reshape = heads_first ? nodes_.Find(*heads_first, "Reshape", 2) : nullptr;
    if (reshape == nullptr || !number || Element(reshape->input(1), 2) != 3) return std::nullopt;
    const std::optional<int64_t> heads = Element(reshape->input(1), 3);
    if (!heads || ReaderCount(gather->input(0)) != 3) return std::nullopt;
    claims.by_head = reshape->input(1);
    claims.inner.insert(claims.inner.end(), {name, *heads_first, reshape->input(0)});
    return Part{reshape->input(0), *number, *heads};
  }

  // A projection's product with constant weights, without added constants.
  const NodeProto* ProductOf(const std::string& projected) {
    std::string name = nodes_.Origin(projected);
    if (const NodeProto* add = nodes_.Find(name, "Add", 2)) {
      const bool first = Computed(add->input(0)).has_value();
      if (!first && !Computed(add->input(1))) return nullptr;
      name = nodes_.Origin(add->input(first ? 1 : 0));
    }
    const NodeProto* product = nodes_.Find(name, "MatMul", 2);
    const bool plain = product != nullptr && product->output_size() == 1 &&
                       nodes_.Constant(product->input(1)) != nullptr;
    return plain ? product : nullptr;
  }

  // The readers of a value, except readers of only its size.
  int64_t ReaderCount(const std::string& name) const {
    return std::ranges::count_if(nodes_.ReadersOf(name), [](const NodeProto* reader) {
      return reader->op_type() != "Shape";
    });
  }
  // The one reader of a value, except readers of only its size; null if there are several.
  const NodeProto* OnlyReader(const std::string& name) const {
    const NodeProto* only = nullptr;
    for (const NodeProto* reader : nodes_.ReadersOf(name)) {
      if (reader->op_type() == "Shape") continue;
      if (only != nullptr) return nullptr;
      only = reader;
    }
    return only != nullptr && only->output_size() == 1 ? only : nullptr;
  }
  const NodeProto* OnlyReader(const std::string& name, std::string_view op) const {
    const NodeProto* only = OnlyReader(name);
    return only != nullptr && only->op_type() == op ? only : nullptr;
  }

  // Down from the projection of attended pixels to planes.
  std::optional<std::string> PlanesAgain(const std::string& projected, const Windows& windows,
                                         AttentionClaims& claims) const {
    const NodeProto* split = OnlyReader(projected, "Reshape");
    if (const NodeProto* next = split ? OnlyReader(split->output(0), "Reshape") : nullptr) {
      if (split->input_size() != 2) return std::nullopt;
      claims.squares.push_back(split->input(1));
      split = next;
    }
    const NodeProto* transpose = split ? OnlyReader(split->output(0), "Transpose") : nullptr;
    if (!Transposes(transpose, {0, 1, 3, 2, 4, 5})) return std::nullopt;
    if (Element(split->input(1), 3) != windows.window[0] ||
        Element(split->input(1), 4) != windows.window[1]) {
      return std::nullopt;
    }
    const NodeProto* planes = OnlyReader(transpose->output(0), "Reshape");
    if (planes == nullptr || split->input_size() != 2 || planes->input_size() != 2) {
      return std::nullopt;
    }
    claims.joined = split->input(1);
    claims.whole = planes->input(1);
    std::string name = planes->output(0);
    std::array<int64_t, 2> rolled = windows.roll;
    for (int i = 0; i < 2; ++i) {
      if (const std::optional<Roll> roll = RollOf(name, claims)) {
        rolled[roll->axis - 1] += roll->by;
        name = roll->gives;
      }
    }
    if (rolled != std::array<int64_t, 2>{}) return std::nullopt;
    // Off the padded planes.
    for (int i = 0; i < 2; ++i) {
      const NodeProto* cut = OnlyReader(name, "Slice");
      const std::optional<Slice> slice = AsSlice(cut);
      const bool sides = slice && slice->start == 0 && (slice->axis == 1 || slice->axis == 2) &&
                         GoesToTheEnd(*slice, claims);
      if (!sides) break;
      name = cut->output(0);
    }
    return name;
  }
  // How planes are rolled further.
  std::optional<Roll> RollOf(const std::string& name, AttentionClaims& claims) const {
    for (const NodeProto* reader : nodes_.ReadersOf(name)) {
      if (reader->op_type() != "Slice" || reader->output_size() != 1) continue;
      std::optional<Roll> roll = AsRoll(OnlyReader(reader->output(0), "Concat"), claims);
      if (roll && roll->of == name && ReaderCount(name) == 2) return roll;
    }
    return std::nullopt;
  }

  std::optional<Found> Match(const NodeProto& softmax) {
    AttentionClaims claims;
    // Operator sets differ in the meaning of a missing one.
    const AttributeProto* axis = NodeIndex::Attribute(softmax, "axis");
    const std::optional<Scores> scores = ScoresOf(softmax.input(0), claims);
    const NodeProto* mixed = OnlyReader(softmax.output(0), "MatMul");
    if (axis == nullptr || (axis->i() != -1 && axis->i() != 3) || !scores || mixed == nullptr ||
        mixed->input_size() != 2) {
      return std::nullopt;
    }
    const std::optional<Part> values = PartOf(mixed->input(1), claims);
    const NodeProto* product = values ? ProductOf(values->projected) : nullptr;
    const auto windows = product ? WindowsOf(product->input(0), claims) : std::nullopt;
    if (!windows || values->number != 2 || values->heads < 1 || values->heads > kMaxChannels) {
      return std::nullopt;
    }
    claims.inner.push_back(product->output(0));
    const bool cosines = !scores->sharpness.empty();
    const auto part_of = [&](const std::string& name) -> std::optional<Part> {
      const auto plain = cosines ? Undirected(name, claims) : std::optional(Unscaled(name, claims));
      return plain ? PartOf(*plain, claims) : std::nullopt;
    };
    const auto queries = part_of(scores->queries), keys = part_of(scores->keys);
    const bool same = queries && keys && queries->projected == values->projected &&
                      keys->projected == values->projected && queries->number == 0 &&
                      keys->number == 1;
    const bool rolls = windows->roll[0] != 0 || windows->roll[1] != 0;
    if (!same || rolls == scores->mask.empty()) return std::nullopt;
    const NodeProto* heads_last = OnlyReader(mixed->output(0), "Transpose");
    const NodeProto* pixels = Transposes(heads_last, {0, 2, 1, 3})
                                  ? OnlyReader(heads_last->output(0), "Reshape")
                                  : nullptr;
    const NodeProto* second =
        pixels && pixels->input_size() == 2 ? OnlyReader(pixels->output(0), "MatMul") : nullptr;
    const NodeProto* offset = second ? OnlyReader(second->output(0), "Add") : nullptr;
    const std::string projected = offset ? offset->output(0) : second ? second->output(0) : "";
    if (second == nullptr || ProductOf(projected) != second) return std::nullopt;
    claims.attended = pixels->input(1);
    const std::optional<std::string> result = PlanesAgain(projected, *windows, claims);
    if (!result || !std::ranges::all_of(claims.inner, [&](const std::string& name) {
          const int readers = claims.measured.contains(nodes_.Origin(name)) ? 2 : 1;
          return ReaderCount(name) == readers && ReaderCount(nodes_.Origin(name)) == readers;
        })) {
      return std::nullopt;
    }
    claims.windows = {.window = windows->window, .roll = windows->roll, .heads = values->heads};
    std::optional<Numbers> bias = Computed(scores->bias);
    const auto sharpness = cosines ? Computed(scores->sharpness) : Numbers{false, {}, {}};
    if (!bias || !sharpness || (cosines && !IsOneForEachHead(*sharpness, values->heads))) {
      return std::nullopt;
    }
    claims.bias = bias->dims;
    claims.mask = scores->mask;
    const std::optional<double> scale =
        CheckClaims(claims, *nodes_.Constant(product->input(1)), *nodes_.Constant(second->input(1)),
                    nodes_, budget_);
    if (!scale) return std::nullopt;
    bias->whole = false;
    Found found{.product = product->output(0),
                .planes = windows->planes,
                .attended = pixels->output(0),
                .bias = ToTensor(*bias),
                .result = *result,
                .projected = projected};
    found.bias.set_name(softmax.output(0) + ".bias");
    found.attention = AttentionNode(values->projected, found.bias.name(), *windows, values->heads,
                                    *scale, sharpness->values);
    return found;
  }

  static bool IsOneForEachHead(const Numbers& numbers, int64_t heads) {
    const std::vector<int64_t>& dims = numbers.dims;
    return dims.size() >= 3 && std::ssize(numbers.values) == heads &&
           dims[dims.size() - 3] == heads;
  }

  static NodeProto AttentionNode(const std::string& projected, const std::string& bias,
                                 const Windows& windows, int64_t heads, double scale,
                                 const std::vector<double>& sharpness) {
    NodeProto node;
    node.set_op_type(kWindowAttention);
    node.add_input(projected);
    node.add_input(bias);
    const auto attribute = [&node](const char* name,
                                   AttributeProto::AttributeType type) -> AttributeProto& {
      AttributeProto& added = *node.add_attribute();
      added.set_name(name);
      added.set_type(type);
      return added;
    };
    attribute("heads", AttributeProto::INT).set_i(heads);
    attribute("scale", AttributeProto::FLOAT).set_f(static_cast<float>(scale));
    if (!sharpness.empty()) {
      attribute("sharpness", AttributeProto::FLOATS)
          .mutable_floats()
          ->Assign(sharpness.begin(), sharpness.end());
    }
    attribute("window", AttributeProto::INTS)
        .mutable_ints()
        ->Assign(windows.window.begin(), windows.window.end());
    attribute("rolls_alone", AttributeProto::INT).set_i(windows.of_rows ? 1 : 0);
    attribute("roll", AttributeProto::INTS)
        .mutable_ints()
        ->Assign(windows.roll.begin(), windows.roll.end());
    return node;
  }

  GraphProto& graph_;
  const NodeIndex nodes_;
  NumberBudget budget_;
};

}  // namespace

void RecogniseAttention(GraphProto& graph) { Attentions(graph).Replace(); }

}  // namespace upscaled::onnx
