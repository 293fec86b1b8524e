import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { Answer, TestApp } from '../support/app.ts'
import { openPublicSide, type PublicSide, serveGit } from '../support/public-side.ts'
import { talk } from '../support/traffic.ts'
import { openWorkspaceApp, sh } from '../support/workspaces.ts'

const ADDRESS = '203.0.113.42'
const VARIABLE = 'EGRESS_TEST_AUTHORIZATION'
const first = `Basic ${Buffer.from('tester:first-secret-of-the-operator').toString('base64')}`
const second = `Basic ${Buffer.from('tester:second-secret-of-the-operator').toString('base64')}`

/** This needs root: nobody else can give the machine an address that stands for the internet. */
describe('allowed_domains', () => {
  let app: TestApp
  let publicSide: PublicSide
  let repositories: string
  let commit = ''

  beforeAll(async () => {
    repositories = mkdtempSync(join(tmpdir(), 'castellan-repositories-'))
    commit = makeRepository(repositories)
    const git = serveGit(repositories, first)
    publicSide = await openPublicSide({
      address: ADDRESS,
      names: { 'inside.castellan.test': '10.99.0.1', 'machine.castellan.test': '127.0.0.1' },
      answer(request, response) {
        if (request.headers.host === 'git.castellan.test') git(request, response)
        else if (request.url === '/endless') saySoon(response)
        else response.end(`${request.headers.host} got ${request.headers.authorization ?? 'nothing'}\n`)
      },
    })
    process.env[VARIABLE] = first
    app = await openWorkspaceApp({
      config: {
        'workspaces.store_gb': 0,
        'workspaces.dns_server': ADDRESS,
        'workspaces.ca_file': publicSide.authorityFile,
        'workspaces.credentials': ['api', 'git'].map((name) => `${name}.castellan.test Authorization env:${VARIABLE}`),
      },
    })
    await app.ask('workspace_create', { name: 'w' })
    publicSide.appear()
  })
  afterAll(async () => {
    await app[Symbol.asyncDispose]()
    await publicSide.close()
    delete process.env[VARIABLE]
    rmSync(repositories, { recursive: true, force: true })
  })

  const policy = (args: object, caller?: ToolCaller) =>
    app.ask<{ network_policy: Answer }>('network_policy', { workspace_id: 'w', ...args }, caller)
  /** What is printed, or how curl failed. */
  const curl = async (args: string, caller?: ToolCaller): Promise<string> => {
    const { exit_code, stdout, stderr } = await sh(app, 'w', `curl -sS --max-time 20 ${args}`, {}, caller)
    return exit_code === 0 ? stdout.trimEnd() : stderr.trimEnd()
  }

  it('let the listed hosts be reached by their names, and nothing else', async () => {
    expect(await curl('https://open.castellan.test/')).toMatch(/Could not resolve host/)
    await policy({ allowed_domains: ['open.castellan.test', '*.wide.castellan.test'] })
    expect(await curl('https://open.castellan.test/')).toBe('open.castellan.test got nothing')
    expect(await curl('http://open.castellan.test/')).toBe('open.castellan.test got nothing')
    expect(await curl('http://a.b.wide.castellan.test/')).toBe('a.b.wide.castellan.test got nothing')
    expect(await curl('https://other.castellan.test/')).toMatch(/403/)
    expect(await curl('http://wide.castellan.test/')).toContain('not among the allowed domains')
    expect(await curl('https://open.castellan.test:444/')).toMatch(/403/)
    expect(
      await curl(`--noproxy '*' --resolve open.castellan.test:443:${ADDRESS} https://open.castellan.test/`),
    ).toMatch(/Failed to connect|Couldn't connect/)
    expect(await talk(app, 'w', ADDRESS, 443)).toBe('refused')
  })

  it('close the direct way also where allow_internet is set', async () => {
    await policy({ allow_internet: true })
    expect(await curl('https://open.castellan.test/')).toBe('open.castellan.test got nothing')
    expect(await talk(app, 'w', ADDRESS, 443)).toBe('refused')
    await policy({ allow_internet: false })
  })

  it('never lead into the machine or a private network, whatever a name server says', async () => {
    await policy({ allowed_domains: ['inside.castellan.test', 'machine.castellan.test', 'open.castellan.test'] })
    for (const name of ['inside', 'machine']) {
      expect(await curl(`http://${name}.castellan.test/`)).toContain('private or special address')
      expect(await curl(`https://${name}.castellan.test/`)).toMatch(/403/)
    }
  })

  it('tell every usual program of the proxy and of whom to trust', async () => {
    const { stdout } = await sh(app, 'w', 'env; grep -c BEGIN "$SSL_CERT_FILE"')
    const trusting = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'NODE_EXTRA_CA_CERTS', 'REQUESTS_CA_BUNDLE']
    for (const name of [...trusting, 'PIP_CERT']) expect(stdout).toContain(`${name}=/etc/castellan/ca-bundle.crt\n`)
    for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY']) {
      expect(stdout).toContain(`${name}=http://127.99.0.1:3128\n`)
    }
    expect(Number(stdout.trimEnd().split('\n').at(-1))).toBeGreaterThan(2)
  })

  it('end with the policy that named them', async () => {
    await policy({ allowed_domains: ['open.castellan.test'] })
    const command = 'exec curl -sS --no-buffer https://open.castellan.test/endless'
    const job = (args: object) => app.ask('exec_background', { workspace_id: 'w', ...args })
    const { job_id } = await job({ action: 'start', command })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['stdout']).toContain('more\n')
    await policy({ allowed_domains: [] })
    await expect.poll(async () => (await job({ action: 'poll', job_id }))['running']).toBe(false)
    expect(await curl('https://open.castellan.test/')).toMatch(/Could not resolve host/)
    expect(await curl('-x http://127.99.0.1:3128 https://open.castellan.test/')).toMatch(/Failed to connect|refused/)
  })

  it('are not needed where the whole internet is open: names come from the same name server', async () => {
    await policy({ allow_internet: true })
    expect((await sh(app, 'w', 'getent hosts open.castellan.test')).stdout).toContain(ADDRESS)
    expect(await curl('http://open.castellan.test/')).toBe('open.castellan.test got nothing')
    expect((await sh(app, 'w', 'getent hosts absent.example')).exit_code).not.toBe(0)
    await policy({ allow_internet: false })
    expect((await sh(app, 'w', 'getent hosts open.castellan.test')).exit_code).not.toBe(0)
  })

  describe('with a credential of the operator', () => {
    beforeAll(async () => {
      await policy({ allowed_domains: ['api.castellan.test', 'git.castellan.test', 'open.castellan.test'] })
    })

    it('put it on requests to its host, where the workload never sees it', async () => {
      const input = await curl("-i -H 'Authorization: Bearer mine' https://api.castellan.test/path")
      expect(publicSide.seen.at(-1)).toEqual({ host: 'api.castellan.test', path: '/path', authorization: first })
      expect(input).toContain('api.castellan.test got ')
      expect(input).not.toContain(first)
      await curl("-H 'Authorization: Bearer mine' https://open.castellan.test/")
      expect(publicSide.seen.at(-1)).toMatchObject({ host: 'open.castellan.test', authorization: 'Bearer mine' })
      const secret = first.slice('Basic '.length)
      expect((await sh(app, 'w', 'cat /proc/*/environ; env')).stdout).not.toContain(secret)
      expect(filesWith(secret, app.dataDir)).toEqual([])
    })

    it('let git clone and push', async () => {
      const url = 'https://git.castellan.test/project.git'
      expect(await app.ask('git_clone', { workspace_id: 'w', url, path: '/workspace/project' })).toMatchObject({
        commit_sha: commit,
        branch: 'main',
      })
      const change = 'cd /workspace/project && git config user.email a@b.c && git config user.name a &&'
      // More than git sends in one piece.
      const made = await sh(
        app,
        'w',
        `${change} head -c 3000000 /dev/urandom > big && git add big && git commit -qm big`,
      )
      expect(made).toMatchObject({ exit_code: 0 })
      expect(await app.ask('git_push', { workspace_id: 'w', path: '/workspace/project' })).toMatchObject({
        success: true,
      })
      const pushed = execFileSync('git', ['-C', join(repositories, 'project.git'), 'log', '--format=%s', 'main'])
      expect(String(pushed)).toBe('big\nfirst\n')
    })

    it('put none of it on the requests of another tenant', async () => {
      const untrusted = await app.keyCaller({ name: 'unrelated', tenant: 'elsewhere', role: 'admin', tier: 'operator' })
      await app.ask('workspace_create', { name: 'w' }, untrusted)
      await policy({ allowed_domains: ['api.castellan.test', 'git.castellan.test'] }, untrusted)
      expect(await curl('https://api.castellan.test/', untrusted)).toBe('api.castellan.test got nothing')
      const request = { workspace_id: 'w', url: 'https://git.castellan.test/project.git', path: '/workspace/project' }
      expect(await app.refusal('git_clone', request, untrusted)).toMatchObject({
        code: 'ERR_GIT_FAILED',
        message: expect.stringContaining('credentials'),
      })
      await app.ask('workspace_destroy', { workspace_id: 'w' }, untrusted)
    })

    it('take another one when the server comes back with it, in workspaces that ran all the time', async () => {
      process.env[VARIABLE] = second
      publicSide.disappear()
      app = await app.restart()
      await app.ask('workspace_info', { workspace_id: 'w' })
      await sh(app, 'w', 'true')
      publicSide.appear()
      await curl('https://api.castellan.test/')
      expect(publicSide.seen.at(-1)).toMatchObject({ host: 'api.castellan.test', authorization: second })
    })
  })
})

/** Continues for as long as a client listens. */
function saySoon(response: ServerResponse): void {
  const timer = setInterval(() => response.write('more\n'), 50)
  response.on('close', () => clearInterval(timer))
}

function makeRepository(folder: string): string {
  const bare = join(folder, 'project.git')
  const work = join(folder, 'work')
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b.c']
  const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim()
  git('init', '--quiet', '--bare', '--initial-branch=main', bare)
  git('-C', bare, 'config', 'http.receivepack', 'true')
  git('init', '--quiet', '--initial-branch=main', work)
  git('-C', work, ...identity, 'commit', '--quiet', '--allow-empty', '--message=first')
  git('-C', work, 'push', '--quiet', bare, 'main')
  return git('-C', work, 'rev-parse', 'HEAD')
}

function filesWith(text: string, folder: string): string[] {
  try {
    return execFileSync('grep', ['-rlF', '--devices=skip', text, folder], { encoding: 'utf8' }).trim().split('\n')
  } catch (error) {
    if ((error as { status: number }).status === 1) return []
    throw error
  }
}
