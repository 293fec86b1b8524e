import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { openWorkspaceApp, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
  await app.ask('workspace_create', { name: 'w' })
})
afterAll(() => app[Symbol.asyncDispose]())

const on = (tool: string, args: object) => app.ask(tool, { workspace_id: 'w', ...args })
const refused = (tool: string, args: object) => app.refusal(tool, { workspace_id: 'w', ...args })

describe('file_write and file_read', () => {
  it('carry text as it is, with parents and mode', async () => {
    const content = 'ä\nzweite\r\n\tende'
    expect(await on('file_write', { path: '/a/b/c.txt', content, mode: '0750' })).toMatchObject({
      bytes_written: Buffer.byteLength(content),
    })
    expect(await on('file_read', { path: '/a/b/c.txt' })).toMatchObject({
      content,
      size: Buffer.byteLength(content),
      truncated: false,
      next_offset: null,
    })
    expect((await sh(app, 'w', 'stat -c %a /a/b/c.txt')).stdout).toBe('750\n')
    await on('file_write', { path: '/a/b/c.txt', content: 'x' })
    expect((await sh(app, 'w', 'stat -c %a /a/b/c.txt')).stdout).toBe('750\n')
    expect(await refused('file_write', { path: '/x', content: 'x', mode: 'rwx' })).toMatchObject({
      details: { field: 'mode' },
    })
  })

  it('page through a large file without cutting a character', async () => {
    const content = 'größe 😀 '.repeat(2_000)
    await on('file_write', { path: '/large', content })
    let text = ''
    for (let offset: unknown = 0; offset !== null; ) {
      const page: Answer = await on('file_read', { path: '/large', offset, limit: 1_000 })
      expect(page['content']).not.toContain('\ufffd')
      text += page['content']
      offset = page['next_offset']
    }
    expect(text).toBe(content)
    const inside = await on('file_read', { path: '/large', offset: 3, limit: 5 })
    expect(inside).toMatchObject({ offset: 4, content: 'ße ' })
    expect(await refused('file_read', { path: '/large', offset: 8, limit: 1 })).toMatchObject({
      details: { field: 'limit' },
    })
  })

  it('refuse what is not text, with the way to get it', async () => {
    await sh(app, 'w', 'printf "a\\000b" > /zero; printf "a\\377b" > /latin')
    for (const path of ['/zero', '/latin']) {
      expect(await refused('file_read', { path })).toMatchObject({
        code: 'ERR_NOT_TEXT',
        message: expect.stringContaining('file_transfer'),
      })
    }
    expect((await refused('file_read', { path: '/nowhere' })).code).toBe('ERR_FILE_NOT_FOUND')
  })
})

describe('file_edit', () => {
  it('replaces the first occurrence and says how many there were', async () => {
    await on('file_write', { path: '/edit', content: 'one two one', mode: '0640' })
    expect(await on('file_edit', { path: '/edit', old_string: 'one', new_string: 'ONE' })).toMatchObject({
      occurrences: 2,
      replaced: 1,
    })
    expect((await on('file_read', { path: '/edit' }))['content']).toBe('ONE two one')
    expect((await sh(app, 'w', 'stat -c %a /edit')).stdout).toBe('640\n')
    expect(await refused('file_edit', { path: '/edit', old_string: 'three', new_string: '' })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'old_string' },
    })
  })
})

describe('file_list', () => {
  it('shows a directory in order, with kinds and permissions', async () => {
    await sh(app, 'w', 'mkdir -p /list/sub; cd /list; echo x > b; chmod 755 b; ln -s b a; mkfifo pipe')
    expect(await on('file_list', { path: '/list' })).toMatchObject({
      entries: [
        { name: 'a', kind: 'symlink' },
        { name: 'b', kind: 'file', size: 2, permissions: 'rwxr-xr-x', modified: expect.any(Number) },
        { name: 'pipe', kind: 'other' },
        { name: 'sub', kind: 'dir' },
      ],
      truncated: false,
    })
    expect(await on('file_list', { path: '/list', limit: 1 })).toMatchObject({ truncated: true })
  })
})

describe('file_transfer', () => {
  const folder = (): string => join(app.dataDir, 'transfers')

  it('carries large binary files both ways, byte for byte', async () => {
    mkdirSync(folder(), { recursive: true })
    const content = randomBytes(9 * 1024 * 1024)
    writeFileSync(join(folder(), 'up.bin'), content)
    const bytes = content.length
    expect(
      await on('file_transfer', { direction: 'upload', host_path: 'up.bin', guest_path: '/in/up.bin' }),
    ).toMatchObject({ bytes })
    const sum = createHash('sha256').update(content).digest('hex')
    expect((await sh(app, 'w', 'sha256sum < /in/up.bin')).stdout).toContain(sum)
    const host_path = join(folder(), 'deep/down.bin')
    expect(await on('file_transfer', { direction: 'download', host_path, guest_path: '/in/up.bin' })).toMatchObject({
      bytes,
    })
    expect(readFileSync(host_path).equals(content)).toBe(true)
  })

  it('cannot be led out of the folder', async () => {
    mkdirSync(folder(), { recursive: true })
    writeFileSync(join(app.dataDir, 'secret'), 'secret')
    symlinkSync(join(app.dataDir, 'secret'), join(folder(), 'link'))
    symlinkSync(app.dataDir, join(folder(), 'out'))
    for (const host_path of [
      '../secret',
      join(app.dataDir, 'secret'),
      'link',
      'out/secret',
      '/etc/passwd',
      '.tenants/x',
    ]) {
      const up = await refused('file_transfer', { direction: 'upload', host_path, guest_path: '/stolen' })
      expect(['ERR_FILE_REFUSED', 'ERR_FILE_NOT_FOUND'], host_path).toContain(up.code)
    }
    for (const host_path of ['../planted', 'out/planted', '/etc/planted']) {
      const down = await refused('file_transfer', { direction: 'download', host_path, guest_path: '/etc/hostname' })
      expect(down.code, host_path).toBe('ERR_FILE_REFUSED')
    }
    await on('file_write', { path: '/mine', content: 'mine' })
    await on('file_transfer', { direction: 'download', host_path: 'link', guest_path: '/mine' })
    expect(readFileSync(join(app.dataDir, 'secret'), 'utf8')).toBe('secret')
    expect(readFileSync(join(folder(), 'link'), 'utf8')).toBe('mine')
  })

  it('refuses what is larger than the operator allows, however little room it takes where it is', async () => {
    mkdirSync(folder(), { recursive: true })
    await sh(app, 'w', 'truncate -s 11G /sparse')
    const down = { direction: 'download', host_path: 'much', guest_path: '/sparse' }
    expect(await refused('file_transfer', down)).toMatchObject({
      code: 'ERR_TOO_LARGE',
      details: { field: 'guest_path', size: 11 * 1024 ** 3, limit: 10 * 1024 ** 3 },
    })
    expect(existsSync(join(folder(), 'much'))).toBe(false)
    truncateSync(join(folder(), 'up.bin'), 11 * 1024 ** 3)
    const up = { direction: 'upload', host_path: 'up.bin', guest_path: '/up/much' }
    expect(await refused('file_transfer', up)).toMatchObject({
      code: 'ERR_TOO_LARGE',
      details: { field: 'host_path' },
    })
    expect((await sh(app, 'w', 'ls /up')).exit_code).not.toBe(0)
  })

  it('stops at once when it is cancelled, and leaves nothing', async () => {
    mkdirSync(join(folder(), 'cancelled'), { recursive: true })
    await sh(app, 'w', 'truncate -s 6G /sparse; mkdir /up')
    const cancel = [new AbortController(), new AbortController()]
    const start = (direction: string, host_path: string, guest_path: string, { signal }: AbortController) =>
      app.call('file_transfer', { workspace_id: 'w', direction, host_path, guest_path }, undefined, { signal })

    const down = start('download', 'cancelled/file', '/sparse', cancel[0]!)
    const partial = join(folder(), '.partial')
    await vi.waitUntil(() => existsSync(partial) && readdirSync(partial).length > 0, { timeout: 180_000, interval: 1 })
    cancel[0]!.abort()
    expect((await down).failure?.code).toBe('ERR_CANCELLED')
    expect([readdirSync(join(folder(), 'cancelled')), readdirSync(partial)]).toEqual([[], []])

    writeFileSync(join(folder(), 'sparse'), '')
    truncateSync(join(folder(), 'sparse'), 6 * 1024 ** 3)
    const up = start('upload', 'sparse', '/up/file', cancel[1]!)
    const made = async (): Promise<string> => (await sh(app, 'w', 'ls -A /up')).stdout
    await vi.waitUntil(async () => (await made()) !== '', { timeout: 180_000, interval: 1 })
    cancel[1]!.abort()
    expect((await up).failure?.code).toBe('ERR_CANCELLED')
    await expect.poll(made).toBe('')
  })
})
