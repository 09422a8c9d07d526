#include "client/http/http_transfer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/error_details.h"
#include "client/http/http_problem.h"

namespace upscaled::client {
namespace {

constexpr size_t kMaxRefusalBytes = size_t{64} << 10;
constexpr absl::Duration kLongestPoll = absl::Minutes(1);

// "HTTP/1.1 200 OK"; 0: none.
int StatusOfLine(absl::string_view line) {
  const size_t space = line.find(' ');
  int status = 0;
  if (space != absl::string_view::npos) {
    (void)absl::SimpleAtoi(line.substr(space + 1, 3), &status);
  }
  return status;
}

}  // namespace

HttpTransfer::HttpTransfer(const HttpTarget& target, HttpRequest request, HttpListener listener)
    : request_(std::move(request)), listener_(std::move(listener)), easy_(curl_easy_init()) {
  CURL* const easy = easy_.get();
  target.Apply(easy, request_.path, request_.parameters);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &ReceiveField);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &ReceiveBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  if (!request_.traceparent.empty()) {
    AddField(absl::StrCat("traceparent: ", request_.traceparent));
  }
  if (!request_.priority.empty()) AddField(absl::StrCat("upscale-priority: ", request_.priority));
  if (request_.body != nullptr) SetUpBody();
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields_.get());
}

void HttpTransfer::AddField(const std::string& field) {
  fields_.reset(curl_slist_append(fields_.release(), field.c_str()));
}

void HttpTransfer::SetUpBody() {
  CURL* const easy = easy_.get();
  const int64_t bytes = request_.body->total_bytes();
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                   bytes > 0 ? static_cast<curl_off_t>(bytes) : curl_off_t{-1});
  AddField(absl::StrCat("Content-Type: ", request_.content_type));
  if (bytes <= 0) AddField("Transfer-Encoding: chunked");
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Send);
  curl_easy_setopt(easy, CURLOPT_READDATA, this);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Seek);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, this);
}

void HttpTransfer::StartReading() {
  if (request_.body != nullptr) reader_.emplace(*request_.body, wake_);
}

void HttpTransfer::Resume() {
  if (std::exchange(waits_for_body_, false)) curl_easy_pause(easy_.get(), CURLPAUSE_CONT);
}

template <typename Result, typename Callback>
Result HttpTransfer::Guard(Result failure, Callback callback) {
  try {
    return callback();
  } catch (const std::exception& error) {
    local_error_ = absl::InternalError(error.what());
    return failure;
  }
}

size_t HttpTransfer::Send(char* to, size_t size, size_t count, void* self) noexcept {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  return transfer.Guard(size_t{CURL_READFUNC_ABORT}, [&] {
    return transfer.OnSend({to, size * count});
  });
}

int HttpTransfer::Seek(void* self, curl_off_t offset, int origin) noexcept {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  return transfer.Guard(CURL_SEEKFUNC_FAIL, [&] { return transfer.OnSeek(offset, origin); });
}

size_t HttpTransfer::ReceiveField(char* line, size_t size, size_t count, void* self) noexcept {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  return transfer.Guard(size_t{0}, [&] {
    transfer.OnField({line, size * count});
    return size * count;
  });
}

size_t HttpTransfer::ReceiveBody(char* bytes, size_t size, size_t count, void* self) noexcept {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  return transfer.Guard(size_t{0}, [&] { return transfer.OnBody({bytes, size * count}); });
}

size_t HttpTransfer::OnSend(std::span<char> dst) {
  const auto taken = reader_->Take(dst);
  waits_for_body_ = !taken.has_value();
  if (waits_for_body_) return CURL_READFUNC_PAUSE;
  if (!taken->ok()) {
    local_error_ = taken->status();
    return CURL_READFUNC_ABORT;
  }
  const size_t bytes = **taken;
  const int64_t declared = request_.body->total_bytes();
  const int64_t so_far = sent_bytes_ + static_cast<int64_t>(bytes);
  if (declared > 0 && (so_far > declared || (bytes == 0 && so_far < declared))) {
    local_error_ = absl::AbortedError(
        absl::StrCat("the image changed while it was sent: it had ", declared, " bytes"));
    return CURL_READFUNC_ABORT;
  }
  sent_bytes_ += static_cast<int64_t>(bytes);
  if (bytes > 0 && listener_.on_sent) listener_.on_sent(sent_bytes_);
  return bytes;
}

// When a kept connection turns out to be closed, the body is sent over another one.
int HttpTransfer::OnSeek(curl_off_t offset, int origin) {
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  reader_.reset();  // before it is another's turn to use the source
  const bool rewound = request_.body->Rewind().ok();
  StartReading();
  sent_bytes_ = 0;
  return rewound ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

void HttpTransfer::OnField(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  if (absl::StartsWith(line, "HTTP/")) {
    http_status_ = StatusOfLine(line);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (name == "retry-after") retry_after_ = std::string(value);
  if (is_success() && listener_.on_field) listener_.on_field(name, value);
}

size_t HttpTransfer::OnBody(absl::string_view part) {
  if (!is_success()) {
    const size_t room = kMaxRefusalBytes - refusal_.size();
    absl::StrAppend(&refusal_, part.substr(0, room));
  } else if (listener_.on_body) {
    local_error_ = listener_.on_body(part);
    if (!local_error_.ok()) return 0;  // not all of it: an error
  }
  return part.size();
}

absl::Status HttpTransfer::status() const {
  if (!local_error_.ok()) return local_error_;
  // A server may refuse an upload before it has all of it.
  if (http_status_ >= 300) return FromHttpAnswer(http_status_, refusal_, retry_after_);
  if (result_ == CURLE_OK) return absl::OkStatus();
  const char* const text =
      error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(result_.value_or(CURLE_OK));
  return WithOrigin(absl::UnavailableError(text), ErrorOrigin::kConnection);
}

void HttpTransfers::Start(HttpTransfer& transfer) {
  transfer.wake_ = [this] { curl_multi_wakeup(multi_.get()); };
  transfer.StartReading();
  curl_multi_add_handle(multi_.get(), transfer.easy_.get());
}

absl::Status HttpTransfers::Await(HttpTransfer& transfer, absl::Time deadline,
                                  std::stop_token stop) {
  std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_.get()); });
  while (true) {
    int running = 0;
    curl_multi_perform(multi_.get(), &running);
    RecordEnds();
    if (transfer.ended()) return absl::OkStatus();
    if (stop.stop_requested()) return absl::CancelledError("cancelled");
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return WithOrigin(absl::DeadlineExceededError("Deadline Exceeded"),
                        transfer.http_status_ > 0 || transfer.sent_bytes_ > 0
                            ? ErrorOrigin::kServer
                            : ErrorOrigin::kConnection);
    }
    const absl::Duration wait = std::min(left, kLongestPoll) + absl::Milliseconds(1);
    curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(wait)),
                    nullptr);
    transfer.Resume();
  }
}

void HttpTransfers::RecordEnds() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    HttpTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->result_ = message->data.result;
  }
}

}  // namespace upscaled::client
