#include "server/rest/batch_body.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/rest/scalar_reader.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr char kJobs[] = "jobs";

// Nests to {"jobs": [{...}]} and no deeper: no document takes more memory than a few times its
// bytes.
class BatchReader final : public ScalarReader {
 public:
  absl::StatusOr<BatchBody> Finish(bool parsed) {
    RETURN_IF_ERROR(End(parsed));
    RETURN_IF_ERROR(CheckBatchSize(body_.jobs.size()));
    return std::move(body_);
  }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) return Enter(Place::kBatch);
    if (place_ != Place::kJobs) return Refuse(absl::StrCat("\"", name_, "\" is an object"));
    body_.jobs.emplace_back();
    if (body_.jobs.size() > static_cast<size_t>(kMaxBatchJobs)) {
      return Refuse(absl::StrCat("the batch has more than ", kMaxBatchJobs, " jobs"));
    }
    return Enter(Place::kJob);
  }
  bool end_object() override {
    return Enter(place_ == Place::kJob ? Place::kJobs : Place::kOutside);
  }
  bool start_array(size_t) override {
    if (place_ == Place::kBatch && name_ == kJobs && !std::exchange(has_jobs_, true)) {
      return Enter(Place::kJobs);
    }
    return Refuse("an array is only \"jobs\", once");
  }
  bool end_array() override { return Enter(Place::kBatch); }

 private:
  enum class Place { kOutside, kBatch, kJobs, kJob };

  bool Enter(Place place) {
    place_ = place;
    return true;
  }
  bool Take(std::optional<std::string> value) override {
    if (place_ == Place::kOutside || place_ == Place::kJobs) {
      return Refuse("a batch is an object with an array \"jobs\" of objects");
    }
    std::vector<FormField>& fields = place_ == Place::kJob ? body_.jobs.back() : body_.shared;
    if (fields.size() == kMaxFormFields) {
      return Refuse(absl::StrCat("an object has more than ", kMaxFormFields, " fields"));
    }
    if (value.has_value()) fields.push_back({name_, std::move(value)});
    return true;
  }

  BatchBody body_;
  Place place_ = Place::kOutside;
  bool has_jobs_ = false;
};

}  // namespace

absl::StatusOr<BatchBody> ParseBatchBody(std::string_view text) {
  BatchReader reader;
  const bool parsed = json::sax_parse(text.begin(), text.end(), &reader);
  return reader.Finish(parsed);
}

absl::Status CheckBatchSize(size_t jobs) {
  if (jobs >= 1 && jobs <= static_cast<size_t>(kMaxBatchJobs)) return absl::OkStatus();
  return InvalidForm(
      absl::StrCat("the batch has ", jobs, " jobs; it must have 1 to ", kMaxBatchJobs));
}

}  // namespace upscaled::server
