// Who is let in: addresses, names of hosts, tokens.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace server {

/// Whether an address to listen on is reached from this machine alone.
bool is_loopback(std::string_view host);
/// Whether a Host header ("localhost:8080", "127.0.0.1", "[::1]:80") names this machine. Pages of other sites that
/// point their own name here (DNS rebinding) do not.
bool names_this_machine(std::string_view host);
/// Takes as long whatever is different, so that a token cannot be guessed letter by letter.
bool equal_in_constant_time(std::string_view given, std::string_view secret);
/// At most 100 bytes, control characters and what is no ASCII as "?".
std::string printable_header(std::string_view text);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
