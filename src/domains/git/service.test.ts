import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createGitLab, failureOf, type GitLab, gitCall, startRepository } from '../../../test/support/git-service.ts'
import { cutText } from './inspect.ts'

const at = { workspace_id: 'ws', path: '/workspace' } as const

/** A plain web server over a repository's files, which asks for `ann:hunter2` when `isPrivate`. */
async function serveRepository(
  lab: GitLab,
  isPrivate = false,
): Promise<Readonly<{ host: string; seen: string[]; server: Server }>> {
  await startRepository(lab, 'upstream')
  await lab.commitFiles('upstream', 'second', { 'a.txt': 'a\n' })
  await lab.git('upstream', 'branch', 'topic', 'HEAD~1')
  await lab.git('upstream', 'update-server-info')
  const folder = join(await lab.folder('upstream'), '.git')
  const seen: string[] = []
  const server = createServer((request, response) => {
    const credentials = request.headers.authorization
    if (credentials !== undefined) seen.push(Buffer.from(credentials.replace('Basic ', ''), 'base64').toString())
    if (isPrivate && credentials === undefined) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      return
    }
    const path = new URL(request.url ?? '/', 'http://x').pathname.replace('/repo.git', '')
    readFile(join(folder, path)).then(
      (content) => response.end(content),
      () => response.writeHead(404).end(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, seen, server }
}

describe('git_clone', () => {
  it('clones a repository and says what is checked out', async () => {
    const lab = await createGitLab()
    const { host } = await serveRepository(lab)
    const call = gitCall()
    const url = `http://${host}/repo.git`
    const head = await lab.git('upstream', 'rev-parse', 'main')
    expect(await lab.service.clone(call, { workspace_id: 'ws', url })).toEqual({
      success: true,
      path: '/workspace',
      commit_sha: head,
      url,
      branch: 'main',
      depth: null,
    })
    expect(call.effects).toMatchObject([{ kind: 'git_cloned', body: { workspace_id: 'ws', url, commit_sha: head } }])
    const topic = await lab.service.clone(gitCall(), {
      workspace_id: 'ws',
      url,
      branch: 'topic',
      path: '/workspace/sub',
    })
    expect(topic).toMatchObject({ branch: 'topic', commit_sha: await lab.git('upstream', 'rev-parse', 'topic') })
  })

  it('uses credentials in the address and keeps them nowhere', async () => {
    const lab = await createGitLab()
    const { host, seen } = await serveRepository(lab, true)
    const refused = await failureOf(
      lab.service.clone(gitCall(), { workspace_id: 'ws', url: `http://${host}/repo.git` }),
    )
    expect(refused.message).toMatch(/requires credentials; ask the operator to configure them in the egress proxy/)
    const call = gitCall()
    const answer = await lab.service.clone(call, { workspace_id: 'ws', url: `http://ann:hunter2@${host}/repo.git` })
    expect(seen).toContain('ann:hunter2')
    expect(answer.url).toBe(`http://${host}/repo.git`)
    expect(call.warnings).toEqual([expect.stringMatching(/not kept in the workspace/)])
    expect(await readFile(join(await lab.folder('ws'), '.git/config'), 'utf8')).not.toContain('hunter2')
    expect(JSON.stringify([answer, call.effects, call.warnings])).not.toContain('hunter2')
    const wrong = await failureOf(
      lab.service.clone(gitCall(), { workspace_id: 'new', url: `http://ann:hunter2@${host}/none.git` }),
    )
    expect(JSON.stringify([wrong.message, wrong.details])).not.toContain('hunter2')
    for (const { request } of lab.requests) expect(request.argv.join(' ')).not.toContain('hunter2')
  })

  it('refuses a directory that is not empty, and addresses that are none', async () => {
    const lab = await createGitLab()
    await lab.write('ws', 'mine.txt', 'mine\n')
    const url = 'https://example.org/x'
    expect(await failureOf(lab.service.clone(gitCall(), { workspace_id: 'ws', url }))).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
    })
    for (const bad of [
      { url: 'ext::sh -c id' },
      { url: '--upload-pack=id' },
      { url, branch: '--x' },
      { url, path: '-x' },
    ]) {
      expect(
        await failureOf(lab.service.clone(gitCall(), { workspace_id: 'ws', path: '/workspace/new', ...bad })),
      ).toMatchObject({
        code: 'ERR_INVALID_INPUT',
      })
    }
    expect(await failureOf(lab.service.clone(gitCall(), { workspace_id: 'missing', url }))).toMatchObject({
      code: 'ERR_WORKSPACE_NOT_FOUND',
    })
  })

  it('says that it fills the workspace before the first file can be there, also if it then fails', async () => {
    const lab = await createGitLab()
    const events: string[] = []
    const { server, host } = await serveRepository(lab)
    server.prependListener('request', ({ url }) => void events.push(String(url)))
    const call = Object.assign(gitCall(), { fillsWorkspace: async (id: string) => void events.push(`fills ${id}`) })
    for (const url of [`http://${host}/repo.git`, `http://${host}/none.git`]) {
      await lab.service.clone(call, { workspace_id: url.endsWith('none.git') ? 'b' : 'a', url }).catch(() => undefined)
    }
    const fills = events.flatMap((event, index) => (event.startsWith('fills') ? [[event, events[index + 1]]] : []))
    expect(fills).toEqual([
      ['fills a', expect.stringMatching(/^\/repo\.git/)],
      ['fills b', expect.stringMatching(/^\/none\.git/)],
    ])
    const refused = Object.assign(gitCall(), { fillsWorkspace: async () => expect.unreachable() })
    await failureOf(lab.service.clone(refused, { workspace_id: 'a', url: `http://${host}/repo.git` }))
  })

  it('marks in a failure what the other machine said', async () => {
    const lab = await createGitLab()
    const server = createServer((_, response) => {
      response.writeHead(403, { 'content-type': 'text/plain' }).end('obey me')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const { host } = await serveRepository(lab)
    const failure = (url: string) => failureOf(lab.service.clone(gitCall(), { workspace_id: 'ws', url }))
    const said = await failure(`http://127.0.0.1:${port}/x`)
    expect(said.details['git_output']).toContain('obey me')
    expect(said.quotes).toEqual(['git_output'])
    for (const url of [`http://${host}/none.git`, 'http://127.0.0.1:9/x', 'http://none.invalid/x'])
      expect((await failure(url)).quotes, url).toEqual([])
  })

  it('leaves nothing behind when it is cancelled', async () => {
    const lab = await createGitLab()
    const call = gitCall()
    const server = createServer(() => call.abort())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.closeAllConnections())
    onTestFinished(() => void server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`
    expect(await failureOf(lab.service.clone(call, { workspace_id: 'ws', url }))).toMatchObject({
      code: 'ERR_CANCELLED',
    })
    expect(await failureOf(lab.service.status(gitCall(), at))).toMatchObject({ code: 'ERR_NOT_A_REPOSITORY' })
  })
})

describe('git_status', () => {
  it('lists every kind of change, with any name', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    const head = await lab.commitFiles('ws', 'more', {
      'old name.txt': 'x\n'.repeat(20),
      'both.txt': 'b\n',
      'gone.txt': 'g\n',
    })
    await lab.git('ws', 'mv', 'old name.txt', 'new\nname ü.txt')
    await lab.write('ws', 'both.txt', 'staged\n')
    await lab.git('ws', 'add', 'both.txt')
    await lab.write('ws', 'both.txt', 'and changed\n')
    await lab.git('ws', 'rm', '--quiet', 'gone.txt')
    await lab.write('ws', '-x "q".txt', 'u\n')
    expect(await lab.service.status(gitCall(), at)).toEqual({
      branch: 'main',
      commit_sha: head,
      upstream: null,
      ahead: 0,
      behind: 0,
      staged: ['both.txt', 'gone.txt', 'new\nname ü.txt'],
      modified: ['both.txt'],
      untracked: ['-x "q".txt'],
      conflicted: [],
      dirty: true,
      truncated: false,
    })
  })

  it('shows conflicts, an upstream, a detached HEAD and a repository without commits', async () => {
    const lab = await createGitLab()
    const first = await startRepository(lab, 'ws')
    await lab.commitFiles('ws', 'here', { 'README.md': 'here\n' })
    await lab.git('ws', 'checkout', '--quiet', '-b', 'side', first)
    await lab.git('ws', 'branch', '--quiet', '--set-upstream-to=main')
    await lab.commitFiles('ws', 'there', { 'README.md': 'there\n' })
    await lab.git('ws', 'merge', 'main').catch(() => '')
    expect(await lab.service.status(gitCall(), at)).toMatchObject({
      branch: 'side',
      upstream: 'main',
      ahead: 1,
      behind: 1,
      conflicted: ['README.md'],
      dirty: true,
    })
    await lab.git('ws', 'merge', '--abort')
    await lab.git('ws', 'checkout', '--quiet', '--detach')
    expect(await lab.service.status(gitCall(), at)).toMatchObject({ branch: '(detached HEAD)', dirty: false })
    await lab.git('new', 'init', '--quiet', '--initial-branch=main')
    expect(await lab.service.status(gitCall(), { workspace_id: 'new' })).toMatchObject({
      branch: 'main',
      commit_sha: null,
    })
  })

  it('says what is wrong with a place that is no repository, or is not there', async () => {
    const lab = await createGitLab()
    expect(await failureOf(lab.service.status(gitCall(), at))).toMatchObject({
      code: 'ERR_NOT_A_REPOSITORY',
      details: { field: 'path' },
    })
    expect(
      await failureOf(lab.service.status(gitCall(), { workspace_id: 'ws', path: '/workspace/none' })),
    ).toMatchObject({ code: 'ERR_NOT_FOUND' })
  })
})

describe('git_commit', () => {
  it('stages and commits everything, under a default identity when there is none', async () => {
    const lab = await createGitLab()
    await lab.git('ws', 'init', '--quiet', '--initial-branch=main')
    await lab.write('ws', 'a.txt', 'a\n')
    const call = gitCall()
    const message = '-m title – "quoted" $(id)\n\n# not a comment\n'
    const answer = await lab.service.commit(call, { ...at, message })
    const id = await lab.git('ws', 'rev-parse', 'HEAD')
    expect(answer).toEqual({
      status: 'committed',
      commit_sha: id,
      short_sha: id.slice(0, 7),
      branch: 'main',
      summary: '-m title – "quoted" $(id)',
    })
    expect(await lab.git('ws', 'show', '-s', '--format=%an <%ae>%n%B', 'HEAD')).toBe(
      `Castellan <castellan@localhost>\n${message}`,
    )
    expect(call.effects).toMatchObject([{ kind: 'git_committed', body: { commit_sha: id } }])
    expect(await lab.service.commit(gitCall(), { ...at, message: 'again' })).toMatchObject({
      status: 'nothing_to_commit',
    })
  })

  it('takes an author, or the identity of the repository, and only what is staged when asked', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    await lab.write('ws', 'a.txt', 'a\n')
    expect(await lab.service.commit(gitCall(), { ...at, message: 'm', add_all: false })).toMatchObject({
      status: 'nothing_to_commit',
    })
    await lab.git('ws', 'add', 'a.txt')
    await lab.write('ws', 'b.txt', 'b\n')
    await lab.service.commit(gitCall(), {
      ...at,
      message: 'm',
      add_all: false,
      author_name: 'Bo',
      author_email: 'bo@example.org',
    })
    expect(await lab.git('ws', 'show', '-s', '--format=%an <%ae> %cn', 'HEAD')).toBe('Bo <bo@example.org> Ann Author')
    expect(await lab.git('ws', 'status', '--porcelain')).toBe('?? b.txt')
    expect(await failureOf(lab.service.commit(gitCall(), { ...at, message: 'm', author_name: 'Bo' }))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'author_email' },
    })
    expect(await failureOf(lab.service.commit(gitCall(), { ...at, message: ' \n' }))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
  })

  it('obeys the hooks of the repository, and shows what they say without secrets', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    const hooks = join(await lab.folder('ws'), '.git/hooks')
    await mkdir(hooks, { recursive: true })
    await writeFile(join(hooks, 'pre-commit'), `#!/bin/sh\necho "no: https://ann:hunter2@example.org" >&2\nexit 1\n`)
    await chmod(join(hooks, 'pre-commit'), 0o755)
    await lab.write('ws', 'a.txt', 'a\n')
    const error = await failureOf(lab.service.commit(gitCall(), { ...at, message: 'm' }))
    expect(error).toMatchObject({
      code: 'ERR_GIT_FAILED',
      details: { git_output: 'no: https://[redacted]@example.org' },
    })
  })
})

describe('git_push', () => {
  const prepare = async (): Promise<GitLab> => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    await lab.git('remote', 'init', '--quiet', '--bare')
    await lab.git('ws', 'remote', 'add', 'origin', await lab.folder('remote'))
    return lab
  }

  it('pushes the current branch or the named one', async () => {
    const lab = await prepare()
    expect(await lab.service.push(gitCall(), { ...at, set_upstream: true })).toMatchObject({
      remote: 'origin',
      branch: 'main',
      success: true,
    })
    expect(await lab.git('remote', 'rev-parse', 'main')).toBe(await lab.git('ws', 'rev-parse', 'main'))
    expect(await lab.service.status(gitCall(), at)).toMatchObject({ upstream: 'origin/main' })
    await lab.git('ws', 'checkout', '--quiet', '--detach')
    expect(await failureOf(lab.service.push(gitCall(), at))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'branch' },
    })
    expect((await failureOf(lab.service.push(gitCall(), { ...at, branch: 'none' }))).message).toMatch(/no such branch/)
  })

  it('overwrites only by force, and says what to do', async () => {
    const lab = await prepare()
    await lab.service.push(gitCall(), at)
    await lab.git('ws', 'commit', '--quiet', '--amend', '-m', 'other')
    const error = await failureOf(lab.service.push(gitCall(), at))
    expect(error.message).toMatch(/fetch and merge them first, or set force/)
    await lab.service.push(gitCall(), { ...at, force: true })
    expect(await lab.git('remote', 'rev-parse', 'main')).toBe(await lab.git('ws', 'rev-parse', 'main'))
  })

  it('knows remotes by name only, and none that starts a program', async () => {
    const lab = await prepare()
    expect(await failureOf(lab.service.push(gitCall(), { ...at, remote: 'other' }))).toMatchObject({
      code: 'ERR_NOT_FOUND',
    })
    expect(await failureOf(lab.service.push(gitCall(), { ...at, remote: '--receive-pack=id' }))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
    await lab.git('ws', 'remote', 'add', 'evil', 'ext::sh -c "touch pwned"')
    await lab.git('ws', 'config', 'protocol.ext.allow', 'always')
    expect(await failureOf(lab.service.push(gitCall(), { ...at, remote: 'evil' }))).toMatchObject({
      code: 'ERR_GIT_FAILED',
    })
    expect(await lab.git('ws', 'status', '--porcelain')).toBe('')
  })
})

describe('git_diff', () => {
  it('shows changes, staged changes, one file and a summary', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    await lab.commitFiles('ws', 'files', { 'a.txt': 'a\n', '[b].txt': 'b\n', 'b.txt': 'b\n' })
    await lab.write('ws', 'a.txt', 'a2\n')
    await lab.git('ws', 'add', 'a.txt')
    await lab.write('ws', '[b].txt', 'b2\n')
    await lab.write('ws', 'b.txt', 'b2\n')
    await lab.git('ws', 'config', 'diff.external', 'touch pwned')
    expect((await lab.service.diff(gitCall(), { ...at, staged: true })).diff).toContain('+a2')
    const one = await lab.service.diff(gitCall(), { ...at, file_path: '[b].txt', stat: true })
    expect(one.diff.match(/^diff --git/gm)).toHaveLength(1)
    expect(one.stat).toMatch(/1 file changed/)
    expect(one.truncated).toBe(false)
    expect(await lab.git('ws', 'ls-files', '--others')).toBe('')
    expect(await failureOf(lab.service.diff(gitCall(), { ...at, file_path: '--output=x' }))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
  })

  it('is cut at whole characters, and shows no secret, not even a part', async () => {
    const lab = await createGitLab()
    await startRepository(lab, 'ws')
    const secret = `ghp_${'Ab3dEf6h'.repeat(5)}`
    await lab.write('ws', 'README.md', `${'é'.repeat(300)}\n${secret}\n${'x'.repeat(40_000)}\n`)
    const call = gitCall()
    for (let max = 150; max < 900; max += 7) {
      const { diff, truncated } = await cutDiff(lab, max)
      expect(truncated).toBe(true)
      expect(diff).not.toContain('ghp_')
      expect(diff).not.toContain('\ufffd')
      expect(diff.endsWith('\n[TRUNCATED]')).toBe(true)
      expect(Buffer.byteLength(diff)).toBeLessThanOrEqual(max + 13)
    }
    const { diff } = await lab.service.diff(call, { ...at, max_bytes: 2_000 })
    expect(diff).toContain('+[redacted]')
    expect(call.warnings).toEqual([expect.stringMatching(/is replaced by \[redacted\]/)])
  })
})

let wholeDiff: Buffer | undefined
/** The same cut that the service makes, for many sizes over one diff. */
async function cutDiff(lab: GitLab, max: number): Promise<Readonly<{ diff: string; truncated: boolean }>> {
  wholeDiff ??= Buffer.from(await lab.git('ws', 'diff'))
  const cut = cutText({ stdout: wholeDiff.subarray(0, max + 8_192), truncated: true }, max)
  return { diff: cut.text, truncated: cut.truncated }
}
