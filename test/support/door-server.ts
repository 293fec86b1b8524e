import { createServer } from 'node:http'
import {
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
} from '@modelcontextprotocol/server'
import { localOwner } from '../../src/contract/principal.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createMcpDoor } from '../../src/mcp/create-mcp-door.ts'
import { stdioTransport } from '../../src/mcp/line-transport.ts'
import { createConformanceFixtures } from '../conformance/fixtures.ts'
import { createSampleHost } from './sample-host.ts'
import { createSampleSkills } from './sample-skills.ts'

/**
 * The MCP door as a process of its own, for tests that need a real peer: `stdio`, or `http`, which prints its address as the
 * first line of standard output. `--fixtures` adds the conformance fixtures.
 */
const [mode, ...flags] = process.argv.slice(2)
const fixtures = flags.includes('--fixtures') ? { fixtures: createConformanceFixtures() } : {}
const door = createMcpDoor({
  host: createSampleHost(),
  version: '0.0.0-test',
  logger: silentLogger,
  skills: createSampleSkills(),
  ...fixtures,
})

if (mode === 'stdio') {
  const session = door.serveLines(stdioTransport(process.stdin, process.stdout), {
    principal: localOwner,
    exposure: 'default',
  })
  await session.closed
  await door.close(0)
} else {
  const server = createServer((req, res) => {
    const headers = new Headers()
    if (req.headers.host !== undefined) headers.set('host', req.headers.host)
    if (req.headers.origin !== undefined) headers.set('origin', req.headers.origin)
    const checked = { headers } as Request
    const refused =
      hostHeaderValidationResponse(checked, localhostAllowedHostnames()) ??
      originValidationResponse(checked, localhostAllowedOrigins())
    if (refused !== undefined) res.writeHead(refused.status).end()
    else if (req.url?.split('?')[0] !== '/mcp') res.writeHead(404).end()
    else door.handleHttp(req, res, { principal: localOwner })
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (address !== null && typeof address === 'object') process.stdout.write(`http://127.0.0.1:${address.port}/mcp\n`)
  })
  process.once('SIGTERM', () => {
    door.close(1_000).then(() => {
      server.close()
      server.closeAllConnections()
    })
  })
}
