// grpc.reflection: the services of a port and their contracts, as tools such as grpcurl ask for
// them. (gRPC's own service takes one thread per call, and lists itself on every server.)
#pragma once

#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"
#include "server/rpc/method.h"

namespace upscaled::server {

// Answers out of the compiled contracts. Thread safe.
class Reflection {
 public:
  // `services` are the full names for list_services.
  explicit Reflection(std::vector<std::string> services);

  // An unknown name gives an error_response with NOT_FOUND.
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request) const;

 private:
  const std::vector<std::string> services_;
};

// Adds reflection for all services of the table, itself included. Callers need the role `read`.
void AddReflectionMethods(MethodTable& methods);

}  // namespace upscaled::server
