#include "client/cli/progress_bar.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace upscaled::client {
namespace {

constexpr int kBarColumns = 24;
constexpr int kDefaultColumns = 80;
constexpr double kMegabyte = 1e6;

double FractionOf(const ImageProgress& image) {
  return image.tiles > 0 ? static_cast<double>(image.tiles_done) / image.tiles : 0;
}

std::string Bar(double fraction) {
  const int filled = static_cast<int>(fraction * kBarColumns);
  return absl::StrCat("[", std::string(filled, '#'), std::string(kBarColumns - filled, '-'), "]");
}

std::string Step(const ImageProgress& image) {
  if (image.tiles > 0) {
    return absl::StrCat("tile ", image.tiles_done, "/", image.tiles);
  }
  if (image.total_bytes > 0) {
    return absl::StrFormat("sent %.1f/%.1f MB", image.sent_bytes / kMegabyte,
                           image.total_bytes / kMegabyte);
  }
  return absl::StrFormat("sent %.1f MB", image.sent_bytes / kMegabyte);
}

int TerminalColumns(std::FILE* terminal) {
  winsize size{};
  const bool known = ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

}  // namespace

std::string FormatEta(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  if (seconds < 3600) return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string RenderProgress(const BatchProgress& batch, const ImageProgress& image, int columns) {
  const double fraction =
      std::clamp((batch.files_done + batch.partial_files) / std::max(1, batch.files), 0.0, 1.0);
  std::string line =
      absl::StrFormat("%s %3d %%  ", Bar(fraction), static_cast<int>(100 * fraction));
  if (batch.files > 1) absl::StrAppend(&line, "file ", batch.files_done, "/", batch.files, "  ");
  absl::StrAppend(&line, Step(image));
  if (fraction > 0) {
    absl::StrAppend(&line, "  ETA ", FormatEta(batch.elapsed * ((1 - fraction) / fraction)));
  }
  absl::StrAppend(&line, "  ", image.name);
  const size_t width = static_cast<size_t>(std::max(0, columns));
  return line.substr(0, width);
}

ProgressBar::ProgressBar(std::FILE* terminal, bool enabled, int files, absl::Duration draw_interval)
    : terminal_(terminal),
      enabled_(enabled),
      draw_interval_(draw_interval),
      batch_{.files = files} {}

ProgressBar::~ProgressBar() {
  absl::MutexLock lock(&mutex_);
  Clear();
}

void ProgressBar::Start(int id, absl::string_view name, int64_t total_bytes) {
  absl::MutexLock lock(&mutex_);
  images_[id] = {.name = std::string(name), .total_bytes = total_bytes};
  Draw(images_[id]);
}

void ProgressBar::Sent(int id, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  images_[id].sent_bytes = bytes;
  Draw(images_[id]);
}

void ProgressBar::Tiles(int id, int64_t done, int64_t tiles) {
  absl::MutexLock lock(&mutex_);
  ImageProgress& image = images_[id];
  image.tiles_done = done;
  image.tiles = tiles;
  Draw(image);
}

void ProgressBar::Finish(int id) {
  absl::MutexLock lock(&mutex_);
  ++batch_.files_done;
  const auto node = images_.extract(id);
  if (!node.empty()) Draw(node.mapped());
}

void ProgressBar::Print(absl::string_view line) {
  absl::MutexLock lock(&mutex_);
  Clear();
  absl::FPrintF(terminal_, "%s\n", line);
  std::fflush(terminal_);
}

void ProgressBar::Draw(const ImageProgress& image) {
  const absl::Time now = absl::Now();
  if (!enabled_ || now - last_drawn_ < draw_interval_) return;
  last_drawn_ = now;
  batch_.elapsed = now - start_;
  batch_.partial_files = 0;
  for (const auto& [id, other] : images_) batch_.partial_files += FractionOf(other);
  absl::FPrintF(terminal_, "\r%s\x1b[K",
                RenderProgress(batch_, image, TerminalColumns(terminal_) - 1));
  std::fflush(terminal_);
  visible_ = true;
}

void ProgressBar::Clear() {
  if (!visible_) return;
  absl::FPrintF(terminal_, "\r\x1b[K");
  std::fflush(terminal_);
  visible_ = false;
}

}  // namespace upscaled::client
