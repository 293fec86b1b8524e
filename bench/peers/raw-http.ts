/** The floor of HTTP: node:http that reads each POST to its end and answers one fixed JSON-RPC result. Takes the port as argument. */
import { createServer } from 'node:http'

const answer = Buffer.from(
  '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\\"ok\\":true}"}],"structuredContent":{"ok":true}}}',
)
const headers = { 'content-type': 'application/json', 'content-length': answer.length }

createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    response.writeHead(200, headers)
    response.end(answer)
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
