// The fields of an upscaled image's answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/image/codec.h"
#include "server/http/http_message.h"
#include "server/rest/upscale_parameters.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// Status 200, or 304 if the client has the result, and all fields known before the first byte;
// `source_name` is the uploaded file's, "" without a name, `planning` the time from the call's
// start to the image's admission. `public_for`: how long shared caches may keep it; nullopt: they
// may not.
HttpResponse ImageResponse(const upscale::v1::UpscaleImageHeader& header,
                           const UpscaleParameters& parameters, std::string_view source_name,
                           absl::Duration planning,
                           std::optional<absl::Duration> public_for = std::nullopt);

// Status 200 for the source itself, because of `error`: "Warning" and "Upscale-Error" say so.
// `format` is read from its first bytes, nullopt if they are no image's.
HttpResponse OriginalResponse(std::optional<ImageFormat> format, const absl::Status& error,
                              std::string_view request_id);

// The fields known at the end: Server-Timing, Upscale-Summary and the result's ETag, and the names
// of those that the header lacks. `unsent_warnings` are the header's, if it has not left yet: the
// fields take the place of those of the same name.
std::vector<HttpField> SummaryFields(const upscale::v1::UpscaleSummary& summary,
                                     std::string summary_json,
                                     std::vector<std::string> unsent_warnings);
std::vector<std::string> SummaryFieldNames(const upscale::v1::UpscaleImageHeader& header);

// Upscale-Warning: the sentences as a list of strings of RFC 8941.
HttpField WarningField(const std::vector<std::string>& sentences);

// A Content-Disposition for a file of that name. Replaces characters of paths, quotes and control
// characters. `kind` is "inline" or "attachment".
std::string ContentDisposition(std::string_view kind, std::string_view file_name);

}  // namespace upscaled::server
