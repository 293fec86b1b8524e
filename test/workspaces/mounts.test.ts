import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { destroyAll, info, openWorkspaceApp, sh } from '../support/workspaces.ts'

let base = ''
let app: TestApp
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'castellan-mounts-'))
  for (const folder of ['own/project', 'own/data', 'read', 'open', 'acme'])
    mkdirSync(join(base, folder), { recursive: true })
  for (const folder of ['own', 'read', 'acme']) chmodSync(join(base, folder), 0o700)
  // Only this one can be entered by others of the machine, and so must be all above it.
  chmodSync(base, 0o755)
  writeFileSync(join(base, 'own/project/file'), 'hello')
  writeFileSync(join(base, 'read/file'), 'read')
  symlinkSync('/etc', join(base, 'own/out'))
  symlinkSync('project', join(base, 'own/in'))
  const allowed = [`rw ${base}/own`, `ro ${base}/read`, `rw ${base}/open`, `rw ${base}/acme tenant=acme`]
  app = await openWorkspaceApp({ config: { 'workspaces.mounts': allowed } })
})
afterEach(() => destroyAll(app))
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  rmSync(base, { recursive: true })
})

const mounted = (folder: string, path: string, mode?: 'rw') => ({
  host_path: join(base, folder),
  path,
  ...(mode === undefined ? {} : { mode }),
})
const make = (name: string, ...mount: object[]) => app.ask('workspace_create', { name, mount })
const refused = (...mount: object[]) => app.refusal('workspace_create', { mount })

describe('a folder of the host in a workspace', () => {
  it('is read and written as its owner, and read only where that is asked for or allowed', async () => {
    await make(
      'w',
      mounted('own/project', '/workspace/deep/project', 'rw'),
      mounted('read', '/read'),
      mounted('own/data', '/data'),
    )
    const command =
      'cd /workspace/deep/project && cat file && echo made > new && mkdir sub && stat -c %u:%g file new sub'
    expect(await sh(app, 'w', command)).toMatchObject({ stdout: 'hello0:0\n0:0\n0:0\n', stderr: '' })
    const { uid, gid } = statSync(join(base, 'own/project'))
    expect(statSync(join(base, 'own/project/new'))).toMatchObject({ uid, gid })
    expect(readFileSync(join(base, 'own/project/new'), 'utf8')).toBe('made\n')
    expect((await sh(app, 'w', 'cat /read/file; touch /read/x /data/x; true')).stderr.match(/Read-only/g)).toHaveLength(
      2,
    )
    await app.ask('file_write', { workspace_id: 'w', path: '/workspace/deep/project/by-tool', content: 'x' })
    expect(readFileSync(join(base, 'own/project/by-tool'), 'utf8')).toBe('x')
    expect((await info(app, 'w'))['mounts']).toMatchObject([
      { mode: 'rw', path: '/workspace/deep/project' },
      { mode: 'ro' },
      { mode: 'ro' },
    ])
  })

  it('leads nowhere else: not by a link, not by "..", not out of what is allowed', async () => {
    for (const folder of ['own/out', 'own/in', 'own/none', 'own/project/file']) {
      expect(await refused(mounted(folder, '/m'))).toMatchObject({
        code: 'ERR_FILE_NOT_FOUND',
        message: expect.stringContaining(folder.replace('own/', '')),
      })
    }
    for (const host_path of ['/etc', '/', base, `${base}/owner`]) {
      expect((await refused({ host_path, path: '/m' })).code).toBe('ERR_PERMISSION_DENIED')
    }
    expect((await refused(mounted('read', '/m', 'rw'))).code).toBe('ERR_PERMISSION_DENIED')
    for (const wrong of [
      { host_path: `${base}/own/../../x` },
      { host_path: 'own' },
      { path: '/../m' },
      { path: '/etc/m' },
      { path: '/' },
    ]) {
      expect((await refused({ ...mounted('own', '/m'), ...wrong })).code).toBe('ERR_INVALID_INPUT')
    }
    expect((await refused(mounted('own', '/m'), mounted('read', '/m/n'))).message).toContain('is inside another mount')
    await make('w', mounted('own/project', '/m', 'rw'))
    const { stdout } = await sh(app, 'w', 'ln -s /etc/hostname /m/link; cat /m/link; ls /m/.. | grep -c own')
    expect(stdout).toBe('w\n0\n')
    rmSync(join(base, 'own/project/link'))
  })

  it('is written only where no other user of the machine could start what is left there', async () => {
    expect(await refused(mounted('open', '/m', 'rw'))).toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      message: expect.stringContaining('other users of this machine may enter it'),
    })
    await make('w', mounted('open', '/m'))
    expect(await sh(app, 'w', 'ls /m')).toMatchObject({ exit_code: 0 })
  })

  it('is for whom the operator names', async () => {
    const untrusted = await app.keyCaller({ name: 'unrelated' })
    const ofAcme = await app.keyCaller({ name: 'agent', tenant: 'acme' })
    const as = (caller: typeof untrusted, folder: string) =>
      app.refusal('workspace_create', { mount: [mounted(folder, '/m')] }, caller)
    expect((await as(untrusted, 'own')).code).toBe('ERR_PERMISSION_DENIED')
    expect((await as(ofAcme, 'own')).code).toBe('ERR_PERMISSION_DENIED')
    expect((await refused(mounted('acme', '/m'))).code).toBe('ERR_PERMISSION_DENIED')
    await app.ask('workspace_create', { name: 'a', mount: [mounted('acme', '/m', 'rw')] }, ofAcme)
    expect(await sh(app, 'a', 'touch /m/x', {}, ofAcme)).toMatchObject({ exit_code: 0 })
    await app.ask('workspace_destroy', { workspace_id: 'a' }, ofAcme)
  })

  it('stays over a stop, and is in no snapshot and no fork', async () => {
    await make('w', mounted('own/project', '/workspace/p', 'rw'))
    await app.ask('workspace_stop', { workspace_id: 'w' })
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect(await sh(app, 'w', 'cat /workspace/p/file')).toMatchObject({ stdout: 'hello' })
    await app.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's' })
    await app.ask('workspace_fork', { workspace_id: 'w', snapshot_name: 's', new_name: 'f' })
    expect(await sh(app, 'f', 'ls -A /workspace/p')).toMatchObject({ stdout: '', exit_code: 0 })
    await app.ask('workspace_destroy', { workspace_id: 'w' })
    expect(readFileSync(join(base, 'own/project/file'), 'utf8')).toBe('hello')
  })

  it('has repositories that can be cloned', async () => {
    const repository = join(base, 'own/data/repository')
    const git = (...args: string[]) =>
      execFileSync('git', ['-C', repository, '-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args])
    execFileSync('git', ['init', '-q', repository])
    git('commit', '-q', '--allow-empty', '-m', 'first')
    await make('w', mounted('own/data', '/source'))
    const cloned = await app.ask('git_clone', { workspace_id: 'w', url: '/source/repository', path: '/workspace/copy' })
    expect(cloned).toMatchObject({ success: true, commit_sha: expect.stringMatching(/^[0-9a-f]{40}$/) })
    expect(await sh(app, 'w', 'git -C /workspace/copy log --format=%s')).toMatchObject({ stdout: 'first\n' })
  })
})
