/** The floor of a proxy in Node: node:http before, undici behind, and nothing in between. Takes its port and the upstream's. */
import { createServer } from 'node:http'
import { Pool } from 'undici'

const [port, upstream] = process.argv.slice(2)
const pool = new Pool(`http://127.0.0.1:${upstream}`, { connections: 128, pipelining: 1 })

createServer(async (req, res) => {
  const { connection: _, host: __, ...headers } = req.headers
  const answer = await pool.request({ method: 'POST', path: req.url!, headers, body: req })
  res.writeHead(answer.statusCode, answer.headers)
  answer.body.pipe(res)
}).listen(Number(port), '127.0.0.1')
