// The server-sent events of a request whose progress is any: pairs of bytes say what happens next.
// The output must read as the HTML standard says, with JSON in it, and end with the request.
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/check.h"
#include "nlohmann/json.hpp"
#include "server/rest/progress_events.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kBlockEnd = "\n\n";

// The name of an event; "" of a comment. `block` is without the empty line that ends it.
std::string_view NameOf(std::string_view block) {
  if (block == ":") return "";
  constexpr std::string_view kEvent = "event: ", kData = "\ndata: ";
  const size_t data = block.find(kData);
  UPSCALED_CHECK(block.starts_with(kEvent) && data != block.npos);
  const std::string_view json = block.substr(data + kData.size());
  UPSCALED_CHECK(json.find_first_of("\r\n") == json.npos && nlohmann::json::accept(json));
  return block.substr(kEvent.size(), data - kEvent.size());
}

class Stream {
 public:
  // Reads what was written; `last`: the stream is over.
  void Take(std::string_view text, bool last) {
    UPSCALED_CHECK(!over_ || text.empty());
    while (!text.empty()) {
      const size_t end = text.find(kBlockEnd);
      UPSCALED_CHECK(end != text.npos);
      const std::string_view name = NameOf(text.substr(0, end));
      text.remove_prefix(end + kBlockEnd.size());
      if (name.empty()) continue;
      UPSCALED_CHECK(!over_);
      over_ = name == "done" || name == "failed";
      UPSCALED_CHECK(over_ || name == "queued" || name == "upload" || name == "started" ||
                     name == "tiles");
    }
    UPSCALED_CHECK(over_ == last);
  }

 private:
  bool over_ = false;
};

void Follow(std::string_view steps, std::string_view id) {
  RequestProgress progress(steps.size() % 3 == 0 ? 0 : int64_t{1} << (steps.size() % 40));
  absl::Time now = absl::UnixEpoch();
  ProgressEvents events{std::string(id), now};
  Stream stream;
  bool begun = false;
  for (size_t i = 0; i + 1 < steps.size() && !events.ended(); i += 2) {
    const int64_t value = int64_t{static_cast<uint8_t>(steps[i + 1])} << (i % 5 * 8);
    switch (static_cast<uint8_t>(steps[i]) % 7) {
      case 0:
        progress.Receive(value);
        break;
      case 1:
        progress.Start(value);
        break;
      case 2:
        progress.Report(value);
        break;
      case 3:
        progress.End(absl::OkStatus(), value % 2 == 0 ? "" : "{\"a\":1}");
        break;
      case 4:
        progress.End(absl::InvalidArgumentError({steps.data(), steps.size()}), "");
        break;
      case 5:
        begun = true;
        break;
      default:
        now += absl::Milliseconds(100 * (value % 1000));
    }
    const std::string text = events.Next(begun ? &progress : nullptr, now);
    stream.Take(text, events.ended());
  }
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t id_bytes = std::min<size_t>(data[0] % 16, text.size());
  upscaled::server::Follow(text.substr(id_bytes), text.substr(0, id_bytes));
  return 0;
}
