// Images, and forms as browsers write them, for tests of calls.
#pragma once

#include <string>
#include <vector>

#include "server/http/http_message.h"
#include "tests/support/test_image.h"

namespace upscaled::server {

using test::PngOf;

struct FormPart {
  std::string name, value;
  bool file = false;
};

inline std::string FormOf(const std::vector<FormPart>& parts) {
  std::string body;
  for (const FormPart& part : parts) {
    body += "--XX\r\nContent-Disposition: form-data; name=\"" + part.name + "\"" +
            (part.file ? "; filename=\"cat.png\"" : "") + "\r\n\r\n" + part.value + "\r\n";
  }
  return body + "--XX--\r\n";
}

inline const std::vector<HttpField> kForm = {{"Content-Type", "multipart/form-data; boundary=XX"}};

}  // namespace upscaled::server
