// A request of HTTP, its answer, and the interface between the connection and the handlers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "server/identity/principal.h"

namespace upscaled::server {

struct HttpField {
  std::string name;
  std::string value;
};

// A request with its whole header and a well-formed target.
struct HttpRequest {
  std::string method;             // "GET", as sent
  std::string path;               // decoded, without query
  std::string sent_path;          // the same, as sent
  std::string query;              // after '?', not decoded; "" where there is none
  std::vector<HttpField> fields;  // in the order in which they came
  std::string peer;               // the client's address without its port; "" where it has none
  std::string parameter;          // what stands for the {name} of the route's path, decoded
  // The names in the client's certificate (see PeerAddress); null: it has shown none.
  std::shared_ptr<const std::vector<std::string>> certificate_names;
  std::shared_ptr<const Principal> caller;  // null: the port asks nobody who they are
  // The end of a signed URL; its signer is the caller; nullopt: the URL is not signed.
  std::optional<absl::Time> signed_until = std::nullopt;
  bool has_body = false;  // a body of at least one byte, or of unknown length, follows
  // Bytes of the body, as the header tells; not set where its chunks tell.
  std::optional<uint64_t> content_length = 0;

  // The first value of this name, in any case; "" if the field is missing.
  std::string_view Field(std::string_view name) const;
  // The same; nullopt if the field is missing.
  std::optional<std::string_view> FindField(std::string_view name) const;
  // The values of all fields of this name, in their order, with commas between them.
  std::string AllFields(std::string_view name) const;
  // How many fields have this name.
  int64_t Count(std::string_view name) const;
  // As Field, but "" if there are several.
  std::string_view OnlyField(std::string_view name) const;
};

// An answer made whole before it is sent. The connection adds Content-Length, Date and Connection.
struct HttpResponse {
  int status = 200;
  std::vector<HttpField> fields;
  std::string body;  // left out in the answer to a HEAD request, but its length is told
  // Bytes of a body sent elsewhere: it follows in pieces, or HEAD leaves it out.
  std::optional<uint64_t> length = std::nullopt;
};

// "Not Found" for 404, as RFC 9110 calls it.
std::string_view HttpReason(int status);

// Whether `field` can be sent as one line: a token as its name, a value without line ends.
bool IsSendable(const HttpField& field);

// Human-readable text.
HttpResponse TextResponse(int status, std::string text);

// Answers one request. Thread safe; may outlive the server, and does nothing then.
class HttpResponseWriter {
 public:
  // Without an answer: status 500.
  virtual ~HttpResponseWriter() = default;
  // At most once.
  virtual void Send(HttpResponse response) = 0;
};

// Called on the thread of all connections: must be quick, or hand the writer to another thread.
using HttpHandler =
    std::function<void(const HttpRequest& request, std::unique_ptr<HttpResponseWriter> writer)>;

}  // namespace upscaled::server
