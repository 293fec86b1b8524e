import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { type OpenedBackend, openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { openPublicSide, type PublicSide } from '../support/public-side.ts'
import { talk } from '../support/traffic.ts'
import { info, openWorkspaceApp, sh } from '../support/workspaces.ts'

const VARIABLE = 'NAMED_HOSTS_TEST_AUTHORIZATION'
const SECRET = 'Bearer a-secret-of-the-operator'

/** Takes the proxy away, so that a program finds its way as if there were none. */
const UNAWARE = 'env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY -u NODE_USE_ENV_PROXY'

const JAVA = `import java.net.*; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  var r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString());
  System.out.print(r.body()); } }`

let compiled: string | undefined

/** The program in base64. To compile it takes longer than all else here, and says nothing about the network. */
function compile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-java-'))
  try {
    writeFileSync(join(folder, 'Get.java'), JAVA)
    execFileSync('javac', ['-d', folder, join(folder, 'Get.java')])
    return readFileSync(join(folder, 'Get.class'), 'base64')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A trust store of Java with that authority, in base64. */
function trustStore(authorityFile: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-java-'))
  const file = join(folder, 'trust.p12')
  const into = ['-keystore', file, '-storepass', 'changeit', '-noprompt']
  try {
    execFileSync('keytool', ['-importcert', '-alias', 'a', '-file', authorityFile, ...into], { stdio: 'ignore' })
    return readFileSync(file, 'base64')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** This needs root: nobody else can give the machine an address that stands for the internet. */
describe.each([
  ['with root', '203.0.113.51', () => openNamespacesBackend({ storeGb: 0 })],
  ['with root without packages', '203.0.113.52', () => openNamespacesBackend({ storeGb: 0, withoutPackages: true })],
  [
    'of an ordinary user without packages, who cannot open the tunnel device',
    '203.0.113.53',
    () => openUserBackend({ subordinateIds: false, withoutPackages: true, withoutTun: true }),
  ],
] as const)('named hosts in workspaces %s', (title, address, open) => {
  let opened: OpenedBackend
  let app: TestApp
  let publicSide: PublicSide

  beforeAll(async () => {
    publicSide = await openPublicSide({
      address,
      names: { 'machine.castellan.test': '127.0.0.1', 'private.castellan.test': '192.168.7.7' },
      answer: (request, response) =>
        response.end(`${request.headers.host} got ${request.headers.authorization ?? 'nothing'}`),
    })
    opened = await open()
    process.env[VARIABLE] = SECRET
    app = await openWorkspaceApp({
      dataDir: dirname(opened.state),
      config: {
        'workspaces.store_gb': 0,
        'workspaces.dns_server': address,
        'workspaces.ca_file': publicSide.authorityFile,
        'workspaces.credentials': [`api.castellan.test Authorization env:${VARIABLE}`],
      },
    })
    publicSide.appear()
    const allowed_domains = ['open.castellan.test', 'api.castellan.test', '*.wide.castellan.test']
    await app.ask('workspace_create', {
      name: 'w',
      allowed_domains: [...allowed_domains, 'machine.castellan.test', 'private.castellan.test'],
    })
  })
  afterAll(async () => {
    delete process.env[VARIABLE]
    await app.stop()
    await opened.close()
    await publicSide.close()
  })

  const unaware = async (command: string): Promise<string> => {
    const { stdout, stderr } = await sh(app, 'w', `${UNAWARE} ${command}`)
    return `${stdout}${stderr}`.trimEnd()
  }
  const curl = (args: string): Promise<string> => unaware(`curl -sS --max-time 20 ${args}`)
  const refused = async () => (await info(app, 'w')).network['refused_connections'] as Answer[]

  it('are reached by programs that know of no proxy', async () => {
    const got = 'open.castellan.test got nothing'
    expect(await curl('https://open.castellan.test/')).toBe(got)
    expect(await curl('http://open.castellan.test/')).toBe(got)
    expect(await curl('http://a.b.wide.castellan.test/')).toBe('a.b.wide.castellan.test got nothing')
    const [url, plainUrl] = ['https://open.castellan.test/', 'http://open.castellan.test/']
    expect(await unaware(`node -e 'fetch("${url}").then((r) => r.text()).then(console.log)'`)).toBe(got)
    const python = `import urllib.request; print(urllib.request.urlopen("${url}").read().decode())`
    expect(await unaware(`/usr/bin/python3 -c '${python}'`)).toBe(got)
    compiled ??= compile()
    const store = trustStore(publicSide.authorityFile)
    await sh(app, 'w', `cd /workspace; echo ${compiled} | base64 -d > Get.class; echo ${store} | base64 -d > trust.p12`)
    const java = (args: string) => sh(app, 'w', `cd /workspace; ${UNAWARE} java -Xmx128m ${args}`)
    expect((await java(`Get ${plainUrl}`)).stdout).toBe(got)
    // Java knows only the authorities of its own list, so it has to be told of another.
    expect((await java(`Get ${url}`)).stderr).toContain('unable to find valid certification path')
    const trusting = '-Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit'
    expect((await java(`${trusting} Get ${url}`)).stdout).toBe(got)
  })

  it('have the credentials of the operator put on, which never come into the workspace', async () => {
    const said = await curl('-i https://api.castellan.test/secret')
    expect(said).not.toContain(SECRET)
    if (title !== 'with root') {
      // To open TLS takes the program openssl.
      expect(said).toMatch(/alert|SSL/)
      expect(await refused()).toContainEqual(expect.objectContaining({ reason: 'no-authority' }))
      expect(await curl('http://api.castellan.test/secret')).toContain('api.castellan.test got ')
    }
    expect(publicSide.seen.at(-1)).toEqual({ host: 'api.castellan.test', path: '/secret', authorization: SECRET })
  })

  it('are the only ones, whatever a program says to whom, and what was refused is shown', async () => {
    const seen = publicSide.seen.length
    expect(await curl('https://other.castellan.test/')).toMatch(/Could not resolve host/)
    const way = (url: string) => `--resolve '*:443:127.99.0.1' --resolve '*:80:127.99.0.1' ${url}`
    expect(await curl(way('https://fronted.castellan.test/'))).toMatch(/alert|SSL/)
    expect(await curl(way('http://plain.castellan.test/'))).toContain('not among the allowed domains')
    expect(await curl(`-H 'Host: host.castellan.test' http://open.castellan.test/`)).toContain('not among the allowed')
    expect(await curl(`-H 'Host: open.castellan.test:81' http://open.castellan.test/`)).toContain('a port other than')
    expect(await curl('-k https://127.99.0.1/')).toMatch(/alert|SSL/)
    for (const name of ['machine', 'private']) {
      expect(await curl(`http://${name}.castellan.test/`)).toContain('private or special address')
    }
    for (const target of [address, '10.99.0.1', '10.0.2.2', '169.254.169.254']) {
      expect(await talk(app, 'w', target, 80)).toBe('refused')
    }
    expect(publicSide.seen.length).toBe(seen)
    const displayed = (await refused()).map(({ host, reason }) => `${String(host)} ${String(reason)}`)
    expect(displayed).toEqual(
      expect.arrayContaining([
        'other.castellan.test host-not-allowed',
        'fronted.castellan.test:443 host-not-allowed',
        'plain.castellan.test:80 host-not-allowed',
        'host.castellan.test:80 host-not-allowed',
        'machine.castellan.test:80 private-address',
      ]),
    )
  })

  it('are taken away from programs that know of no proxy as well, over a stop and a start', async () => {
    await app.ask('workspace_stop', { workspace_id: 'w' })
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect(await curl('http://open.castellan.test/')).toContain('got nothing')
    const closed = await app.ask<{ refused_connections: Answer[] }>('network_policy', {
      workspace_id: 'w',
      allowed_domains: [],
    })
    expect(closed.refused_connections).toEqual([])
    expect(await curl('http://open.castellan.test/')).toMatch(/Could not resolve host/)
    expect(await curl(`--resolve '*:80:127.99.0.1' http://open.castellan.test/`)).toMatch(/Failed to connect|Couldn't/)
  })

  it('are reached while a workspace is prepared', async () => {
    const setup_commands = [`${UNAWARE} curl -sS --fail http://open.castellan.test/ > /workspace/fetched`]
    await app.ask('workspace_prepare', { name: 'made', allowed_domains: ['open.castellan.test'], setup_commands })
    expect((await info(app, 'made')).network).toMatchObject({
      allow_internet: false,
      allowed_domains: ['open.castellan.test'],
    })
    expect((await sh(app, 'made', 'cat /workspace/fetched')).stdout).toBe('open.castellan.test got nothing')
  })

  it('leave the authorities of the machine and of the operator known in a workspace without a network', async () => {
    await app.ask('workspace_create', { name: 'closed' })
    const count = (program: string) => sh(app, 'closed', program)
    const python = 'import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 3)'
    expect(await count(`/usr/bin/python3 -c '${python}'`)).toMatchObject({ stdout: 'True\n', exit_code: 0 })
    const node = 'console.log(require("tls").rootCertificates.length > 3, process.env.NODE_EXTRA_CA_CERTS)'
    expect((await count(`node -e '${node}'`)).stdout).toBe('true /etc/castellan/ca-bundle.crt\n')
    const subjects = 'import ssl; print([c["subject"] for c in ssl.create_default_context().get_ca_certs()])'
    expect((await count(`/usr/bin/python3 -c '${subjects}'`)).stdout).toContain('public side of a test')
  })
})
