// Values of JSON as the texts of form fields.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/rest/form.h"

namespace upscaled::server {

// Called by the parser for each value; false ends it. Derived classes say where objects and arrays
// may be.
class ScalarReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() final { return Take(std::nullopt); }
  bool boolean(bool value) final { return Take(value ? "true" : "false"); }
  bool number_integer(int64_t value) final { return Take(absl::StrCat(value)); }
  bool number_unsigned(uint64_t value) final { return Take(absl::StrCat(value)); }
  // To JSON, 90.0 is the whole number 90.
  bool number_float(double value, const std::string& text) final {
    const bool is_whole = std::trunc(value) == value && std::abs(value) < 0x1p53;
    return Take(is_whole ? absl::StrCat(static_cast<int64_t>(value)) : text);
  }
  bool string(std::string& value) final { return Take(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) final { return false; }
  bool key(std::string& name) final {
    name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) final {
    return Refuse(absl::StrCat("the body is no JSON from its byte ", position, " on"));
  }

 protected:
  // Takes the value of name_; nullopt: null.
  virtual bool Take(std::optional<std::string> value) = 0;

  bool Refuse(std::string_view message) {
    error_ = InvalidForm(message);
    return false;
  }
  // Whether all was read; `parsed` by the parser.
  absl::Status End(bool parsed) const {
    return error_.ok() && !parsed ? InvalidForm("the body is no JSON") : error_;
  }

  absl::Status error_;
  std::string name_;
};

}  // namespace upscaled::server
