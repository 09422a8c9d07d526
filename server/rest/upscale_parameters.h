// The parameters of a request of POST /v1/upscale, out of the fields of its query and its form.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/options/request_options.h"
#include "server/rest/form.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

struct UpscaleParameters {
  upscale::v1::UpscaleOptions options;  // as sent; server/handlers checks the values
  std::string url;                      // of the image; "": it is sent
  std::string request_id;               // "": none
  double timeout_s = std::numeric_limits<double>::infinity();  // for the whole call
  bool dry_run = false;
  bool original_on_error = false;
  std::string download;  // a file name; "": shown, not saved
  // For a job: the URL for a message at its end, and the client's own name; "": none.
  std::string webhook, reference;
  // The given names, by the contract's: {"width_px": "width"}.
  std::map<std::string, std::string, std::less<>> names;
};

// Reads fields one after the other.
class ParameterReader {
 public:
  explicit ParameterReader(UpscaleParameters& parameters) : parameters_(parameters) {}

  // A field without a value means "yes" for a switch. One of an empty value, as forms send it,
  // counts as not given.
  // INVALID_ARGUMENT (kInvalidOption, with the field in its metadata) for a name unknown or read
  // before, also by another of its names, and for unreadable values.
  absl::Status Read(const FormField& field);

 private:
  UpscaleParameters& parameters_;
};

// Checks and reads the options. Errors as FromProto, with the given names of the parameters.
absl::StatusOr<RequestOptions> ReadOptions(const UpscaleParameters& parameters);

// The names of all options, each followed by its short one, if it has one.
std::vector<std::string_view> ParameterNames();

}  // namespace upscaled::server
