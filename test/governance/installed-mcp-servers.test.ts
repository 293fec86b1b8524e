import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { type OpenedBackend, openNamespacesBackend } from '../support/namespaces-backend.ts'
import { openPublicSide, type PublicSide } from '../support/public-side.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

/**
 * MCP servers that are installed from a registry, through the domains that their catalogue item allows. The registries are on an address
 * of this machine that stands for the internet; npm and pip are the real ones.
 */
const ADDRESS = '203.0.113.61'
const NPM = 'npm.castellan.test'
const PYPI = 'pypi.castellan.test'

const NODE_SERVER = `#!/usr/bin/env node
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'hello', inputSchema: { type: 'object' } }] }),
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  const body = answers[method] ? { result: answers[method](params) } : { error: { code: -32601, message: 'no' } }
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
})
`
const PYTHON_SERVER = `
import json, sys
def main():
    for line in sys.stdin:
        message = json.loads(line)
        if 'id' not in message: continue
        method, reply = message['method'], {'jsonrpc': '2.0', 'id': message['id']}
        if method == 'initialize':
            reply['result'] = {'protocolVersion': message['params']['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 's', 'version': '1'}}
        elif method == 'tools/list':
            reply['result'] = {'tools': [{'name': 'hello', 'inputSchema': {'type': 'object'}}]}
        else:
            reply['error'] = {'code': -32601, 'message': 'no'}
        print(json.dumps(reply), flush=True)
`
const MAKE_WHEEL = `
import sys, zipfile
info = 'mcp_hello_py-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('mcp_hello_py.py', sys.stdin.read())
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: mcp-hello-py\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'entry_points.txt', '[console_scripts]\\nmcp-hello-py = mcp_hello_py:main\\n')
    wheel.writestr(info + 'RECORD', '')
`
const WHEEL = 'mcp_hello_py-1.0-py3-none-any.whl'

/** Real packages, as the registries serve them. */
function registries(folder: string): RequestListener {
  const manifest = { name: 'mcp-hello', version: '1.0.0', bin: { 'mcp-hello': 'run.js' } }
  mkdirSync(join(folder, 'package'))
  writeFileSync(join(folder, 'package', 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'package', 'run.js'), NODE_SERVER, { mode: 0o755 })
  execFileSync('tar', ['-czf', 'mcp-hello-1.0.0.tgz', 'package'], { cwd: folder })
  execFileSync('python3', ['-c', MAKE_WHEEL, join(folder, WHEEL)], { input: PYTHON_SERVER })
  const tarball = readFileSync(join(folder, 'mcp-hello-1.0.0.tgz'))
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
  const dist = { tarball: `https://${NPM}/mcp-hello/-/mcp-hello-1.0.0.tgz`, integrity }
  const versions = { '1.0.0': { ...manifest, dist } }
  const packument = JSON.stringify({ name: 'mcp-hello', 'dist-tags': { latest: '1.0.0' }, versions })
  const found: Record<string, readonly [string, string | Buffer]> = {
    [`${NPM}/mcp-hello`]: ['application/json', packument],
    [`${NPM}/mcp-hello/-/mcp-hello-1.0.0.tgz`]: ['application/octet-stream', tarball],
    [`${PYPI}/simple/mcp-hello-py/`]: ['text/html', `<!doctype html><a href="/files/${WHEEL}">${WHEEL}</a>`],
    [`${PYPI}/files/${WHEEL}`]: ['application/octet-stream', readFileSync(join(folder, WHEEL))],
  }
  return ({ headers, url }, response) => {
    const one = found[`${headers.host}${url}`]
    if (one === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': one[0] }).end(one[1])
  }
}

let folder = ''
let opened: OpenedBackend
let app: TestApp
let publicSide: PublicSide
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-registries-'))
  publicSide = await openPublicSide({ address: ADDRESS, answer: registries(folder) })
  opened = await openNamespacesBackend({ storeGb: 0 })
  app = await openWorkspaceApp({
    dataDir: dirname(opened.state),
    config: {
      'workspaces.store_gb': 0,
      'workspaces.dns_server': ADDRESS,
      'workspaces.ca_file': publicSide.authorityFile,
    },
  })
  publicSide.appear()
})
afterAll(async () => {
  await app.stop()
  await opened.close()
  await publicSide.close()
  rmSync(folder, { recursive: true, force: true })
})

type Deployed = { id: string; status: string; error: string | null; toolCount: number }
const servers = [
  ['npm', NPM, 'mcp-hello', `npm install --global --fetch-retries 0 --registry https://${NPM} mcp-hello`],
  ['pip', PYPI, 'mcp-hello-py', `pip3 install --retries 0 --index-url https://${PYPI}/simple/ mcp-hello-py`],
] as const

describe.each(servers)('a server from %s', (name, host, command, installationCommand) => {
  const deploy = async (title: string, allowedDomains: readonly string[]) => {
    const item = { name: title, command, installationCommand, allowedDomains }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', item)
    return await app.ask<Deployed>('deploy_mcp_server', { catalogId: id })
  }

  it('is installed through the domains of its item, and runs', { timeout: 120_000 }, async () => {
    const deployed = await deploy(`From ${name}`, [host])
    expect(deployed, await logOf(deployed)).toMatchObject({ status: 'success', error: null, toolCount: 1 })
    expect(publicSide.seen.map((request) => request.host)).toContain(host)
  })

  it('is not installed from where its item does not allow', { timeout: 240_000 }, async () => {
    const before = publicSide.seen.length
    const deployed = await deploy(`Not from ${name}`, ['elsewhere.castellan.test'])
    expect(deployed).toMatchObject({ status: 'error', error: expect.stringContaining('installation command') })
    expect(publicSide.seen.slice(before)).toEqual([])
  })
})

const logOf = async ({ id }: Deployed): Promise<string> =>
  (await app.ask<{ lines: string[] }>('get_mcp_server_logs', { serverId: id })).lines.join('\n')
