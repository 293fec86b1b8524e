/**
 * `node:http` without an import statement, which would read every export of the module: three of them load Node's own HTTP client
 * and WebSocket, 13 MiB that nothing here uses.
 */
export const { createServer, request, STATUS_CODES, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http')
