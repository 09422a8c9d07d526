// A URL as libcurl takes it apart (RFC 3986, as curl's own transfers read it).
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

namespace upscaled::server {

class CurlUrl {
 public:
  // Reads a URL, or resolves a relative one against the URL read before. `flags` are CURLU_*.
  CURLUcode Read(const std::string& text, unsigned flags = 0) {
    return url_ == nullptr ? CURLUE_OUT_OF_MEMORY
                           : curl_url_set(url_.get(), CURLUPART_URL, text.c_str(), flags);
  }

  // "" if the URL has none.
  std::string Part(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), part, &text, flags) != CURLUE_OK) return "";
    const std::unique_ptr<char, void (*)(void*)> owner(text, curl_free);
    return text;
  }

 private:
  struct Deleter {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
  };
  std::unique_ptr<CURLU, Deleter> url_{curl_url()};
};

}  // namespace upscaled::server
