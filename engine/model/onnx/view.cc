#include "engine/model/onnx/view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"

namespace upscaled::onnx {
namespace {

constexpr size_t kMaxDigits = 32;

bool IsOne(const PerProbe& count) { return SameWhenAligned(count, SameForAll(1)); }

// a / b, if whole for all aligned images; rounded down for the others.
std::optional<PerProbe> Quotient(const PerProbe& a, const PerProbe& b) {
  PerProbe result;
  for (size_t i = 0; i < kProbes; ++i) {
    if (b[i] < 1 || (i < kAlignedProbes && a[i] % b[i] != 0)) return std::nullopt;
    result[i] = a[i] / b[i];
  }
  return result;
}

// The quotient, where it is the same for all images.
std::optional<int64_t> FixedQuotient(const PerProbe& a, const PerProbe& b) {
  const std::optional<PerProbe> quotient = Quotient(a, b);
  if (!quotient || !SameWhenAligned(*quotient, SameForAll((*quotient)[0]))) return std::nullopt;
  return (*quotient)[0];
}

// Digits counting on from each other are one.
Axis Merged(const Axis& axis) {
  Axis merged;
  for (const Digit& digit : axis) {
    if (IsOne(digit.count)) continue;
    Digit* slower = merged.empty() ? nullptr : &merged.back();
    const bool goes_on = slower != nullptr && slower->of == digit.of &&
                         SameWhenAligned(digit.count, SameForAll(digit.count[0])) &&
                         slower->stride == digit.stride * digit.count[0];
    if (!goes_on) {
      merged.push_back(digit);
      continue;
    }
    // Rows cut off by a split come back where all are together again: both ways are exact for
    // aligned images.
    for (size_t i = 0; i < kProbes; ++i) slower->count[i] *= digit.count[i];
    slower->stride = digit.stride;
  }
  return merged;
}

// Digits taken off either end.
class Digits {
 public:
  explicit Digits(const View& view) {
    for (const Axis& axis : view) digits_.insert(digits_.end(), axis.begin(), axis.end());
  }

  // An axis of this side; nullopt when digits do not split so.
  std::optional<Axis> TakeFirst(PerProbe side) {
    Axis axis;
    while (!IsOne(side)) {
      if (digits_.empty()) return std::nullopt;
      Digit& first = digits_.front();
      if (const auto rest = Quotient(side, first.count)) {
        axis.push_back(first);
        digits_.erase(digits_.begin());
        side = *rest;
        continue;
      }
      const std::optional<int64_t> rest = FixedQuotient(first.count, side);
      if (!rest) return std::nullopt;
      axis.push_back({first.of, side, first.stride * *rest});
      first.count = SameForAll(*rest);
      return axis;
    }
    return axis;
  }
  std::optional<Axis> TakeLast(PerProbe side) {
    Axis axis;
    while (!IsOne(side)) {
      if (digits_.empty()) return std::nullopt;
      Digit& last = digits_.back();
      if (const auto rest = Quotient(side, last.count)) {
        axis.insert(axis.begin(), last);
        digits_.pop_back();
        side = *rest;
        continue;
      }
      const std::optional<PerProbe> rest = Quotient(last.count, side);
      if (!rest || !SameWhenAligned(side, SameForAll(side[0]))) return std::nullopt;
      axis.insert(axis.begin(), {last.of, side, last.stride});
      last.count = *rest;
      last.stride *= side[0];
      return axis;
    }
    return axis;
  }
  Axis TakeAll() { return std::exchange(digits_, {}); }
  bool empty() const { return digits_.empty(); }

 private:
  Axis digits_;
};

absl::Status NoSplit() {
  return absl::UnimplementedError("does not split channels, rows and columns into whole parts");
}

// The digits of axis 2 or 3 of planes: blocks of pixels, then channels for a pixel shuffle.
struct Line {
  int64_t block = 1;
  Axis channels;
};
std::optional<Line> ToLine(const Axis& axis, Digit::Of of) {
  Line line;
  for (const Digit& digit : axis) {
    if (digit.of == Digit::kChannel) {
      line.channels.push_back(digit);
    } else if (digit.of == of && line.channels.empty() && &digit == &axis.front()) {
      line.block = digit.stride;
    } else {
      return std::nullopt;
    }
  }
  return line;
}

int64_t CountOf(const Axis& digits) {
  int64_t count = 1;
  for (const Digit& digit : digits) {
    count = std::min<int64_t>(count * std::min<int64_t>(digit.count[0], kMaxChannels + 1),
                              kMaxChannels + 1);
  }
  return count;
}

// The places of position `index` of these digits in the layer.
Rearrangement::Tap TapOf(const Axis& digits, int64_t index) {
  Rearrangement::Tap tap;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    const int place = static_cast<int>(index % digit->count[0] * digit->stride);
    index /= digit->count[0];
    if (digit->of == Digit::kChannel) tap.channel += place;
    if (digit->of == Digit::kRow) tap.row += place;
    if (digit->of == Digit::kColumn) tap.column += place;
  }
  return tap;
}

// Whether the digits have every row (or column) of a block of this side once.
bool HasBlock(const Axis& digits, Digit::Of of, int64_t block) {
  int64_t found = 1;
  for (const Digit& digit : digits) {
    if (digit.of != of) continue;
    if (digit.stride != 1 || found != 1) return false;
    found = digit.count[0];
  }
  return found == block;
}

}  // namespace

bool operator==(const Digit& a, const Digit& b) {
  return a.of == b.of && a.stride == b.stride && SameWhenAligned(a.count, b.count);
}

View ViewPlanes(int channels, const PerProbe& height, const PerProbe& width) {
  return {{},
          Merged({{Digit::kChannel, SameForAll(channels), 1}}),
          Merged({{Digit::kRow, height, 1}}),
          Merged({{Digit::kColumn, width, 1}})};
}

PerProbe SideOf(const Axis& axis) {
  PerProbe side = SameForAll(1);
  for (const Digit& digit : axis) {
    for (size_t i = 0; i < kProbes; ++i) side[i] *= digit.count[i];
  }
  return side;
}

absl::StatusOr<View> Reshape(const View& view, std::vector<PerProbe> sides) {
  if (sides.size() > kMaxTensorAxes) return NoSplit();
  const PerProbe left = SameForAll(-1);
  for (size_t i = 0; i < sides.size(); ++i) {
    if (sides[i] == SameForAll(0) && i < view.size()) sides[i] = SideOf(view[i]);
  }
  Digits digits(view);
  View result(sides.size());
  size_t first = 0, behind = sides.size();
  for (; first < sides.size() && sides[first] != left; ++first) {
    std::optional<Axis> axis = digits.TakeFirst(sides[first]);
    if (!axis) return NoSplit();
    result[first] = *std::move(axis);
  }
  for (; behind > first + 1 && sides[behind - 1] != left; --behind) {
    std::optional<Axis> axis = digits.TakeLast(sides[behind - 1]);
    if (!axis) return NoSplit();
    result[behind - 1] = *std::move(axis);
  }
  if (behind > first + 1) return NoSplit();
  if (first < sides.size()) result[first] = digits.TakeAll();
  size_t count = 0;
  for (Axis& axis : result) {
    axis = Merged(axis);
    count += axis.size();
  }
  if (!digits.empty() || count > kMaxDigits) return NoSplit();
  return result;
}

std::optional<Rearrangement> ToPlanes(const View& view) {
  if (view.size() != 4 || !view[0].empty()) return std::nullopt;
  const std::optional<Line> rows = ToLine(view[2], Digit::kRow);
  const std::optional<Line> columns = ToLine(view[3], Digit::kColumn);
  if (!rows || !columns) return std::nullopt;
  Rearrangement result;
  const int64_t block = rows->block, shuffle = CountOf(rows->channels);
  const bool square = columns->block == block && CountOf(columns->channels) == shuffle;
  const bool blocks =
      HasBlock(view[1], Digit::kRow, block) && HasBlock(view[1], Digit::kColumn, block);
  if (!square || !blocks || block > kMaxFactor || shuffle > kMaxFactor) return std::nullopt;
  Axis digits = view[1];
  digits.insert(digits.end(), rows->channels.begin(), rows->channels.end());
  digits.insert(digits.end(), columns->channels.begin(), columns->channels.end());
  const int64_t count = CountOf(digits);
  if (count > kMaxChannels) return std::nullopt;
  result.unshuffle = static_cast<int>(block);
  result.shuffle = static_cast<int>(shuffle);
  for (int64_t i = 0; i < count; ++i) result.taps.push_back(TapOf(digits, i));
  return result;
}

bool AreChannels(const View& view, const std::vector<int64_t>& axes, int channels) {
  int64_t count = 1;
  for (const int64_t axis : axes) {
    for (const Digit& digit : view[axis]) {
      if (digit.of != Digit::kChannel) return false;
      count *= digit.count[0];
    }
  }
  return count == channels;
}

bool HaveRowsAndColumns(const View& view, const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < view.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    for (const Digit& digit : view[i]) {
      if (digit.of == Digit::kRow || digit.of == Digit::kColumn) return false;
    }
  }
  return true;
}

}  // namespace upscaled::onnx
