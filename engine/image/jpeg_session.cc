#include "engine/image/jpeg_session.h"

#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

// libjpeg goes on after a warning, with gray or smeared pixels where the data are damaged. These
// warnings do not tell of damaged pixels.
bool IsHarmless(int warning) {
  switch (warning) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return true;
    default:
      return false;
  }
}

}  // namespace

JpegSession::JpegSession(bool tolerant) : tolerant_(tolerant) {
  jpeg_std_error(&manager_);
  manager_.error_exit = OnError;
  manager_.emit_message = OnMessage;
}

void JpegSession::OnError(j_common_ptr info) {
  JpegSession& session = Of(info);
  session.FailWithMessage(info);
  session.Leave();
}

void JpegSession::OnMessage(j_common_ptr info, int level) {
  if (level >= 0 || IsHarmless(info->err->msg_code)) return;
  JpegSession& session = Of(info);
  if (!session.tolerant_) OnError(info);
  if (!session.damage_.empty()) return;
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  session.damage_ = message;
}

void JpegSession::FailWithMessage(j_common_ptr info) {
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  const bool no_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  Fail(absl::Status(
      no_memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
      absl::StrCat("JPEG: ", message)));
}

}  // namespace upscaled
