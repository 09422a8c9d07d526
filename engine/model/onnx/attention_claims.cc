#include "engine/model/onnx/attention_claims.h"

#include <algorithm>
#include <iterator>

#include "engine/model/onnx/numbers.h"

namespace upscaled::onnx {
namespace {

using Dims = std::vector<int64_t>;

constexpr double kUnseen = -50;           // masks add this or less to what must not be seen
constexpr int64_t kMaxWindows = 1 << 16;  // along an axis, of the size that a file was written for

// Windows along each axis, rows first, to try for numbers computed from the size.
constexpr std::array<std::array<int64_t, 2>, 3> kSampleWindows = {{{2, 3}, {3, 5}, {7, 4}}};

// Planes of `count` windows along each axis.
struct Sample {
  AttendedWindows of;
  int64_t in = 0, channels = 0, out = 0;  // of the planes, of all heads, of the result
  std::array<int64_t, 2> count = {};

  int64_t tokens() const { return of.window[0] * of.window[1]; }
  int64_t windows() const { return count[0] * count[1]; }
  int64_t side(int axis) const { return count[axis] * of.window[axis]; }
};

PlaneNumbers::Shapes ShapesOf(const AttentionClaims& claims, const Sample& sample) {
  PlaneNumbers::Shapes shapes = {{claims.tokens, {sample.windows(), sample.tokens(), sample.in}}};
  for (const std::string& planes : claims.planes) {
    shapes[planes] = {1, sample.side(0), sample.side(1), sample.in};
  }
  if (!claims.sized_by.empty()) {
    shapes[claims.sized_by] = {1, sample.in, sample.side(0), sample.side(1)};
  }
  return shapes;
}

// Whether a reshape to `target` gives these sides; it may leave one of them open.
bool Gives(const Dims& target, const Dims& dims) {
  int open = 0;
  return std::equal(target.begin(), target.end(), dims.begin(), dims.end(),
                    [&open](int64_t given, int64_t side) {
                      return given == side || (given == -1 && ++open == 1);
                    });
}

// Whether the last sides are these, and all before are 1.
bool EndsWith(const Dims& dims, const Dims& end) {
  return dims.size() >= end.size() && std::equal(end.rbegin(), end.rend(), dims.rbegin()) &&
         std::all_of(dims.begin(), dims.end() - std::ssize(end),
                     [](int64_t side) { return side == 1; });
}

std::optional<double> ScaleOf(const AttentionClaims& claims, PlaneNumbers& numbers) {
  double scale = 1;
  for (const std::string& factor : claims.factors) {
    const std::optional<Numbers> number = numbers.Of(factor);
    if (!number || number->values.size() != 1) return std::nullopt;
    scale *= number->values[0];
  }
  return scale;
}

bool ShapesHold(const AttentionClaims& claims, const Sample& sample, PlaneNumbers& numbers) {
  const int64_t tokens = sample.tokens(), windows = sample.windows(), heads = sample.of.heads;
  const int64_t rows = sample.count[0], columns = sample.count[1];
  const int64_t height = sample.of.window[0], width = sample.of.window[1];
  const auto is = [&numbers](const std::string& target, const Dims& dims) {
    const std::optional<Dims> given = numbers.Ints(target);
    return given && Gives(*given, dims);
  };
  const bool scores = std::ranges::all_of(claims.scores, [&](const std::string& target) {
    return is(target, {windows, heads, tokens, tokens}) ||
           is(target, {1, windows, heads, tokens, tokens});
  });
  const bool squares = std::ranges::all_of(claims.squares, [&](const std::string& target) {
    return is(target, {windows, height, width, sample.in}) ||
           is(target, {windows, height, width, sample.out});
  });
  const bool layout =
      claims.layout.empty() || is(claims.layout, {1, sample.side(0), sample.side(1), sample.in});
  return scores && squares && layout &&
         is(claims.split, {1, rows, height, columns, width, sample.in}) &&
         is(claims.cut, {windows, tokens, sample.in}) &&
         is(claims.by_head, {windows, tokens, 3, heads, sample.channels / heads}) &&
         is(claims.attended, {windows, tokens, sample.channels}) &&
         is(claims.joined, {1, rows, columns, height, width, sample.out}) &&
         is(claims.whole, {1, sample.side(0), sample.side(1), sample.out});
}

// Whether nothing is padded, and slices end where the planes do.
bool SidesHold(const AttentionClaims& claims, const Sample& sample, PlaneNumbers& numbers) {
  const Dims pads = claims.pads.empty() ? Dims{0} : numbers.Ints(claims.pads).value_or(Dims{1});
  return std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; }) &&
         std::ranges::all_of(claims.ends, [&](const std::pair<std::string, int64_t>& end) {
           const std::optional<Dims> given = numbers.Ints(end.first);
           return given && given->size() == 1 &&
                  (*given)[0] >= sample.side(static_cast<int>(end.second) - 1);
         });
}

// The part of a window, one of up to four, with a pixel after the roll.
int RolledPart(const Sample& sample, int64_t window, int64_t token) {
  const std::array<int64_t, 2> at = {window / sample.count[1], window % sample.count[1]},
                               place = {token / sample.of.window[1], token % sample.of.window[1]};
  int number = 0;
  for (int axis = 0; axis < 2; ++axis) {
    const bool rolled = at[axis] == sample.count[axis] - 1 && sample.of.roll[axis] != 0 &&
                        place[axis] >= sample.of.window[axis] - sample.of.roll[axis];
    number = 2 * number + (rolled ? 1 : 0);
  }
  return number;
}

// Whether the mask hides from each pixel those in other parts of its window, and no others.
bool HidesSeam(const std::string& mask, const Sample& sample, PlaneNumbers& numbers) {
  const int64_t tokens = sample.tokens();
  const std::optional<Numbers> given = numbers.Of(mask);
  if (!given || !EndsWith(given->dims, {sample.windows(), 1, tokens, tokens})) return false;
  const double* value = given->values.data();
  for (int64_t window = 0; window < sample.windows(); ++window) {
    for (int64_t query = 0; query < tokens; ++query) {
      for (int64_t key = 0; key < tokens; ++key, ++value) {
        const bool seen = RolledPart(sample, window, query) == RolledPart(sample, window, key);
        if (seen ? *value != 0 : !(*value <= kUnseen)) return false;
      }
    }
  }
  return true;
}

// The windows of a file's one size, if they do not follow from the size.
std::vector<std::array<int64_t, 2>> CountsToTry(const AttentionClaims& claims, Sample sample,
                                                const NodeIndex& nodes, NumberBudget& budget) {
  sample.count = kSampleWindows[0];
  PlaneNumbers numbers(nodes, ShapesOf(claims, sample), budget);
  const std::optional<Dims> split = numbers.Ints(claims.split);
  if (split && split->size() == 6) {
    const std::array<int64_t, 2> count = {(*split)[1], (*split)[3]};
    const bool sound = std::ranges::all_of(
        count, [](int64_t windows) { return windows >= 1 && windows <= kMaxWindows; });
    if (sound && count != sample.count) return {count};
  }
  return {kSampleWindows.begin(), kSampleWindows.end()};
}

}  // namespace

std::optional<double> CheckClaims(const AttentionClaims& claims, const TensorProto& first,
                                  const TensorProto& second, const NodeIndex& nodes,
                                  NumberBudget& budget) {
  const int64_t heads = claims.windows.heads;
  if (first.dims_size() != 2 || second.dims_size() != 2 || first.dims(1) % (3 * heads) != 0) {
    return std::nullopt;
  }
  Sample sample{.of = claims.windows,
                .in = first.dims(0),
                .channels = first.dims(1) / 3,
                .out = second.dims(1)};
  if (!EndsWith(claims.bias, {heads, sample.tokens(), sample.tokens()})) return std::nullopt;
  std::optional<double> scale;
  for (const std::array<int64_t, 2>& count : CountsToTry(claims, sample, nodes, budget)) {
    sample.count = count;
    PlaneNumbers numbers(nodes, ShapesOf(claims, sample), budget);
    const std::optional<double> found = ScaleOf(claims, numbers);
    const bool holds = found && (!scale || *found == *scale) &&
                       ShapesHold(claims, sample, numbers) && SidesHold(claims, sample, numbers) &&
                       (claims.mask.empty() || HidesSeam(claims.mask, sample, numbers));
    if (!holds) return std::nullopt;
    scale = found;
  }
  return scale;
}

}  // namespace upscaled::onnx
