#include "engine/model/onnx/patterns.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/onnx/node_index.h"
#include "engine/model/onnx/tensor.h"

namespace upscaled::onnx {
namespace {

// No pattern is deeper, or has more factors; so a hostile file costs no more.
constexpr int kMaxDepth = 6;
constexpr size_t kMaxFactors = 6;

class Patterns {
 public:
  explicit Patterns(GraphProto& graph) : graph_(graph), nodes_(graph) {}

  void Replace() {
    const std::map<std::string, int> before = CountReaders(graph_);
    for (NodeProto& node : *graph_.mutable_node()) {
      if (std::optional<NodeProto> simple = Recognise(node)) ReplaceBy(*simple, node);
    }
    RemoveUnread(before, graph_);
  }

 private:
  // A product: a number times terms.
  struct Product {
    double factor = 1;
    std::vector<std::string> terms;
  };

  // Whether both are computed in the same way, even if by nodes of their own.
  bool AreSame(const std::string& a, const std::string& b, int depth = 0) const {
    const std::string first = nodes_.Origin(a), second = nodes_.Origin(b);
    if (first == second) return true;
    const NodeProto* x = nodes_.Find(first);
    const NodeProto* y = nodes_.Find(second);
    if (x == nullptr || y == nullptr || depth > 2 || x->op_type() != y->op_type() ||
        x->input_size() != y->input_size() || x->input_size() == 0 || x->input_size() > 2 ||
        x->attribute_size() != y->attribute_size() || x->output_size() != 1 ||
        y->output_size() != 1) {
      return false;
    }
    for (int i = 0; i < x->attribute_size(); ++i) {
      if (x->attribute(i).SerializeAsString() != y->attribute(i).SerializeAsString()) return false;
    }
    for (int i = 0; i < x->input_size(); ++i) {
      if (!AreSame(x->input(i), y->input(i), depth + 1)) return false;
    }
    return true;
  }

  void Multiply(const std::string& name, int depth, Product& product) const {
    if (product.terms.size() > kMaxFactors) return;
    if (const std::optional<double> number = nodes_.Number(name)) {
      product.factor *= *number;
      return;
    }
    if (depth > 0) {
      if (const NodeProto* mul = nodes_.Find(name, "Mul", 2)) {
        Multiply(mul->input(0), depth - 1, product);
        return Multiply(mul->input(1), depth - 1, product);
      }
      const NodeProto* div = nodes_.Find(name, "Div", 2);
      const std::optional<double> divisor =
          div == nullptr ? std::nullopt : nodes_.Number(div->input(1));
      if (divisor && *divisor != 0) {
        product.factor /= *divisor;
        return Multiply(div->input(0), depth - 1, product);
      }
      const NodeProto* pow = nodes_.Find(name, "Pow", 2);
      const std::optional<double> power =
          pow == nullptr ? std::nullopt : nodes_.Number(pow->input(1));
      if (power == 2 || power == 3) {
        for (int i = 0; i < static_cast<int>(*power); ++i) {
          Multiply(pow->input(0), depth - 1, product);
        }
        return;
      }
    }
    product.terms.push_back(nodes_.Origin(name));
  }
  Product Multiply(const std::string& name) const {
    Product product;
    Multiply(name, kMaxDepth, product);
    return product;
  }
  bool IsPower(const Product& product, const std::string& of, size_t power) const {
    return product.terms.size() == power &&
           std::all_of(product.terms.begin(), product.terms.end(),
                       [&](const std::string& term) { return AreSame(term, of); });
  }

  // The other operand of an Add of a number near `number`.
  std::optional<std::string> AddedTo(const std::string& name, double number) const {
    const NodeProto* add = nodes_.Find(name, "Add", 2);
    for (int i = 0; add != nullptr && i < 2; ++i) {
      if (nodes_.IsNumber(add->input(i), number)) return add->input(1 - i);
    }
    return std::nullopt;
  }

  bool IsSoftplus(const std::string& name, const std::string& of) const {
    if (const NodeProto* plus = nodes_.Find(name, "Softplus", 1))
      return AreSame(plus->input(0), of);
    const NodeProto* log = nodes_.Find(name, "Log", 1);
    const std::optional<std::string> exp =
        log == nullptr ? std::nullopt : AddedTo(log->input(0), 1);
    const NodeProto* node = exp ? nodes_.Find(*exp, "Exp", 1) : nullptr;
    return node != nullptr && AreSame(node->input(0), of);
  }

  // sqrt(2 / pi) * (x + 0.044715 x^3), also spelt x * (1 + 0.044715 x^2).
  bool IsTanhOfGelu(const std::string& name, const std::string& x) const {
    constexpr double kCubic = 0.044715;
    Product product = Multiply(name);
    if (!IsNear(product.factor, std::sqrt(2 / M_PI))) return false;
    const auto is_x = [&](const std::string& term) { return AreSame(term, x); };
    const bool factored = product.terms.size() == 2;
    if (factored) std::stable_partition(product.terms.begin(), product.terms.end(), is_x);
    if (product.terms.empty() || (factored && !is_x(product.terms[0]))) return false;
    const NodeProto* add = nodes_.Find(product.terms.back(), "Add", 2);
    for (int i = 0; add != nullptr && i < 2; ++i) {
      const bool first = factored ? nodes_.IsNumber(add->input(i), 1) : is_x(add->input(i));
      const Product higher = Multiply(add->input(1 - i));
      if (first && IsNear(higher.factor, kCubic) && IsPower(higher, x, factored ? 2 : 3)) {
        return true;
      }
    }
    return false;
  }

  static NodeProto Simple(const char* op, const std::string& input) {
    NodeProto node;
    node.set_op_type(op);
    node.add_input(input);
    return node;
  }

  // x * f(x)
  std::optional<NodeProto> RecogniseGate(const NodeProto& node) const {
    if (node.op_type() != "Mul" || node.input_size() != 2) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      const std::string& x = node.input(i);
      const NodeProto* sigmoid = nodes_.Find(node.input(1 - i), "Sigmoid", 1);
      if (sigmoid != nullptr && AreSame(sigmoid->input(0), x)) return Simple("Swish", x);
      const NodeProto* tanh = nodes_.Find(node.input(1 - i), "Tanh", 1);
      if (tanh != nullptr && IsSoftplus(tanh->input(0), x)) return Simple("Mish", x);
    }
    return std::nullopt;
  }

  // x * (1 + f(x)) / 2
  std::optional<NodeProto> RecogniseGelu(const NodeProto& node) const {
    if ((node.op_type() != "Mul" && node.op_type() != "Div") || node.input_size() != 2) {
      return std::nullopt;
    }
    const Product product = Multiply(node.output(0));
    if (product.terms.size() != 2 || !IsNear(product.factor, 0.5)) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const std::string& x = product.terms[i];
      const std::optional<std::string> curve = AddedTo(product.terms[1 - i], 1);
      if (!curve) continue;
      if (const NodeProto* erf = nodes_.Find(*curve, "Erf", 1)) {
        const Product inside = Multiply(erf->input(0));
        if (IsPower(inside, x, 1) && IsNear(inside.factor, M_SQRT1_2)) return Simple("Gelu", x);
      }
      const NodeProto* tanh = nodes_.Find(*curve, "Tanh", 1);
      if (tanh == nullptr || !IsTanhOfGelu(tanh->input(0), x)) continue;
      NodeProto gelu = Simple("Gelu", x);
      AttributeProto& form = *gelu.add_attribute();
      form.set_name("approximate");
      form.set_type(AttributeProto::STRING);
      form.set_s("tanh");
      return gelu;
    }
    return std::nullopt;
  }

  // The axes of a ReduceMean; none: it is something else.
  std::vector<int64_t> MeanAxes(const NodeProto& mean) const {
    const AttributeProto* keep = NodeIndex::Attribute(mean, "keepdims");
    if (keep != nullptr && keep->i() == 0) return {};
    if (mean.input_size() == 2) {
      const TensorProto* axes = nodes_.Constant(mean.input(1));
      return axes == nullptr ? std::vector<int64_t>()
                             : ReadInts(*axes).value_or(std::vector<int64_t>());
    }
    const AttributeProto* axes = NodeIndex::Attribute(mean, "axes");
    if (axes == nullptr) return {};
    return {axes->ints().begin(), axes->ints().end()};
  }
  const NodeProto* FindMean(const std::string& name) const {
    const NodeProto* mean = nodes_.Find(nodes_.Origin(name));
    return mean != nullptr && mean->op_type() == "ReduceMean" && mean->input_size() >= 1 ? mean
                                                                                         : nullptr;
  }

  // v of sqrt(v), or of 1 / sqrt(v) if `inverse`.
  std::optional<std::string> UnderRoot(const std::string& name, bool inverse) const {
    if (const NodeProto* pow = nodes_.Find(name, "Pow", 2)) {
      if (nodes_.IsNumber(pow->input(1), inverse ? -0.5 : 0.5)) return pow->input(0);
      return std::nullopt;
    }
    if (!inverse) {
      const NodeProto* root = nodes_.Find(name, "Sqrt", 1);
      return root == nullptr ? std::nullopt : std::optional<std::string>(root->input(0));
    }
    if (const NodeProto* reciprocal = nodes_.Find(name, "Reciprocal", 1)) {
      return UnderRoot(reciprocal->input(0), false);
    }
    const NodeProto* div = nodes_.Find(name, "Div", 2);
    if (div == nullptr || !nodes_.IsNumber(div->input(0), 1)) return std::nullopt;
    return UnderRoot(div->input(1), false);
  }

  // d / sqrt(mean(d^2) + epsilon)
  std::optional<NodeProto> RecogniseNorm(const NodeProto& node) const {
    const bool product = node.op_type() == "Mul";
    if ((!product && node.op_type() != "Div") || node.input_size() != 2) return std::nullopt;
    for (int i = 0; i < (product ? 2 : 1); ++i) {
      const std::optional<std::string> sum = UnderRoot(node.input(1 - i), product);
      const NodeProto* add = sum ? nodes_.Find(*sum, "Add", 2) : nullptr;
      for (int side = 0; add != nullptr && side < 2; ++side) {
        const std::optional<double> epsilon = nodes_.Number(add->input(1 - side));
        const NodeProto* mean = FindMean(add->input(side));
        if (!epsilon || mean == nullptr) continue;
        const std::string& deviation = node.input(i);
        const Product square = Multiply(mean->input(0));
        const std::vector<int64_t> axes = MeanAxes(*mean);
        if (!IsPower(square, deviation, 2) || square.factor != 1 || axes.empty()) continue;
        return Normalize(deviation, axes, *epsilon);
      }
    }
    return std::nullopt;
  }
  NodeProto Normalize(const std::string& deviation, const std::vector<int64_t>& axes,
                      double epsilon) const {
    const NodeProto* sub = nodes_.Find(deviation, "Sub", 2);
    const NodeProto* mean = sub == nullptr ? nullptr : FindMean(sub->input(1));
    const bool centred =
        mean != nullptr && AreSame(mean->input(0), sub->input(0)) && MeanAxes(*mean) == axes;
    NodeProto node = Simple(kNormalize, centred ? sub->input(0) : deviation);
    const auto attribute = [&node](const char* name,
                                   AttributeProto::AttributeType type) -> AttributeProto& {
      AttributeProto& added = *node.add_attribute();
      added.set_name(name);
      added.set_type(type);
      return added;
    };
    attribute("axes", AttributeProto::INTS).mutable_ints()->Assign(axes.begin(), axes.end());
    attribute("epsilon", AttributeProto::FLOAT).set_f(static_cast<float>(epsilon));
    attribute("centred", AttributeProto::INT).set_i(centred ? 1 : 0);
    return node;
  }

  std::optional<NodeProto> Recognise(const NodeProto& node) const {
    const bool ours = node.domain().empty() || node.domain() == "ai.onnx";
    if (!ours || node.output_size() != 1) return std::nullopt;
    if (std::optional<NodeProto> gate = RecogniseGate(node)) return gate;
    if (std::optional<NodeProto> gelu = RecogniseGelu(node)) return gelu;
    return RecogniseNorm(node);
  }

  // Keeps name and output.
  static void ReplaceBy(const NodeProto& simple, NodeProto& node) {
    node.set_op_type(simple.op_type());
    *node.mutable_input() = simple.input();
    *node.mutable_attribute() = simple.attribute();
  }

  GraphProto& graph_;
  const NodeIndex nodes_;
};

}  // namespace

void RecognisePatterns(GraphProto& graph) { Patterns(graph).Replace(); }

}  // namespace upscaled::onnx
