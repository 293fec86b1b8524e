import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as plainRequest } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { runCastellan } from '../support/run-castellan.ts'
import { runNode } from '../support/run-node.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { makeTlsPair, type TlsPair } from '../support/tls-files.ts'

/** `castellan serve` with a certificate: real clients over https, and a certificate that is renewed meanwhile. */
let home = ''
let dataDir = ''
let pair: TlsPair
let servers: ServerHere[] = []

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-tls-'))
  dataDir = join(home, 'state')
  mkdirSync(dataDir)
  pair = makeTlsPair(home, 'first')
  servers = []
})

afterEach(async () => {
  for (const server of servers) await server.stop()
  rmSync(home, { recursive: true, force: true })
})

async function serve(args: readonly string[], env: Record<string, string> = {}): Promise<ServerHere> {
  const server = await startServerHere({ dataDir, args, env })
  servers.push(server)
  return server
}

const tlsFlags = ({ cert, key }: TlsPair): string[] => ['--tls-cert', cert, '--tls-key', key]

type Seen = Readonly<{ status: number | undefined; body: string; certificate: string }>

/** One request on a connection of its own; the certificate must be one that `ca` vouches for. */
function get(url: string, ca: string): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { ca, agent: false, headers: { connection: 'close' } }, (response) => {
      const certificate = (response.socket as TLSSocket).getPeerCertificate().subject.CN as string
      text(response).then((body) => resolve({ status: response.statusCode, body, certificate }), reject)
    })
    asked.once('error', reject)
    asked.end()
  })
}

describe('serve with a certificate', () => {
  test('a command that names it with http:// is told so, and that nothing was done', async () => {
    const { url } = await serve(tlsFlags(pair))
    const { origin } = new URL(url)
    const plain = origin.replace('https:', 'http:')
    const refused = await runCastellanHere(['call', 'server_ping', '--url', plain], { home })
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toContain(
      `${plain} speaks TLS. Nothing was sent that it could read. Write ${origin} instead.`,
    )
    expect(refused.stderr).not.toContain('may or may not')
  })

  test('an MCP client of the SDK calls a tool over https', async () => {
    const { url } = await serve(tlsFlags(pair))
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+\/mcp$/)
    const program = `
      import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
      const client = new Client({ name: 'over-tls', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[1])))
      const { structuredContent } = await client.callTool({ name: 'task_create', arguments: { title: 'kept', project: 'p' } })
      console.log(structuredContent.status)
      await client.close()`
    const args = ['--input-type=module', '--eval', program, url]
    const trusting = await runNode(args, 60_000, { NODE_EXTRA_CA_CERTS: pair.cert })
    expect(trusting).toMatchObject({ code: 0, stdout: 'backlog\n' })
    const distrusting = await runNode(args, 180_000)
    expect(distrusting.code).not.toBe(0)
  })

  test('plain HTTP gets no answer on that port', async () => {
    const { url } = await serve(tlsFlags(pair))
    await expect(fetch(url.replace('https:', 'http:'))).rejects.toThrow()
  })

  test('a renewed certificate is shown without a restart, and a half renewed one is not', async () => {
    const { url } = await serve(tlsFlags(pair))
    const second = makeTlsPair(home, 'second')
    const health = new URL('/health', url).href
    expect(await get(health, pair.ca)).toMatchObject({ status: 200, certificate: 'first' })
    copyFileSync(second.cert, pair.cert)
    await expect(get(health, second.ca)).rejects.toThrow()
    expect(await get(health, pair.ca)).toMatchObject({ status: 200, certificate: 'first' })
    copyFileSync(second.key, pair.key)
    await expect
      .poll(
        () =>
          get(health, second.ca).then(
            ({ certificate }) => certificate,
            () => '',
          ),
        { timeout: 180_000 },
      )
      .toBe('second')
  })

  test('links have the scheme of the port, also through a process that does not own the state', async () => {
    const owner = await serve([])
    const other = await serve(tlsFlags(pair))
    const { origin } = new URL(other.url)
    const { body } = await get(`${origin}/`, pair.ca)
    expect(body).toContain(`${origin}/mcp`)
    expect(await (await fetch(new URL('/', owner.url))).text()).toContain(`${new URL(owner.url).origin}/mcp`)
  })

  test('a file that is not there, and a key of another certificate, end the start with the reason', async () => {
    const second = makeTlsPair(home, 'second')
    const start = (flags: readonly string[]) =>
      runCastellan(['serve', '--port', '0', '--data-dir', dataDir, ...flags], { home })
    const none = await start(['--tls-cert', join(home, 'none.pem'), '--tls-key', pair.key])
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('tls_cert: the file') })
    const mixed = await start(tlsFlags({ ...pair, key: second.key }))
    expect(mixed).toMatchObject({ code: 2, stderr: expect.stringContaining('tls_cert, tls_key: must be') })
    const half = await start(['--tls-cert', pair.cert])
    expect(half).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('tls_key must be set, because tls_cert is set'),
    })
  })
})

describe('a server that others reach through a proxy', () => {
  test('demands a key of everybody over HTTP, and names itself as its public URL', async () => {
    writeFileSync(
      join(dataDir, 'castellan.yaml'),
      'public_url: https://castellan.example\ntrusted_proxies: [127.0.0.1]\n',
    )
    const refused = await runCastellan(['serve', '--port', '0', '--data-dir', dataDir], { home })
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("'trusted_proxies' makes the server reachable"),
    })
    const made = await runCastellan(['keys', 'create', 'one', '--data-dir', dataDir], { home })
    const server = await serve([])
    const call = (headers: Record<string, string>) =>
      fetch(new URL('/v1/tools/server_ping', server.url), {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json', ...headers },
      })
    expect((await call({})).status).toBe(401)
    expect((await call({ authorization: `Bearer ${made.stdout.trim()}` })).status).toBe(200)
    expect(await (await fetch(new URL('/', server.url))).text()).toContain('https://castellan.example/mcp')
  })

  test('believes the listed proxy about its client, and nobody else', async () => {
    writeFileSync(join(dataDir, 'castellan.yaml'), 'trusted_proxies: [127.0.0.2]\n')
    await runCastellan(['users', 'create', 'ada@example.com', '--admin', '--data-dir', dataDir], { home })
    const server = await serve([])
    // One connects from the address of the proxy, the other from another address of this machine.
    for (const localAddress of ['127.0.0.2', '127.0.0.3']) {
      expect(await signInFrom(localAddress, server.url)).toBe(401)
    }
    const listed = await runCastellan(['users', 'attempts', '--json', '--data-dir', dataDir], { home })
    const { attempts } = JSON.parse(listed.stdout) as { attempts: { address: string }[] }
    expect(attempts.map(({ address }) => address)).toEqual(['127.0.0.3', '203.0.113.9'])
  })
})

/** A wrong password from an address of this machine, with the headers of a proxy for a client elsewhere that uses https. */
function signInFrom(localAddress: string, url: string): Promise<number | undefined> {
  const { host } = new URL(url)
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    'x-forwarded-for': '127.0.0.1, 203.0.113.9',
    'x-forwarded-proto': 'https',
    origin: `https://${host}`,
  }
  return new Promise((resolve, reject) => {
    const asked = plainRequest(new URL('/sign-in', url), { method: 'POST', localAddress, headers, agent: false })
    asked.once('error', reject)
    asked.once('response', (response) => {
      response.resume().once('end', () => resolve(response.statusCode))
    })
    asked.end('email=ada%40example.com&password=wrong')
  })
}
