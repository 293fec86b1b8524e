import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LOCAL_TENANT, tenantId } from '../../contract/principal.ts'
import { createTransferFolder } from './transfer-folder.ts'

const ACME = tenantId('acme')
let base = ''
let directory = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'castellan-transfer-'))
  directory = join(base, 'transfers')
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const never = new AbortController().signal
const contentOf = (content: string) => {
  const bytes = Buffer.from(content)
  return { size: bytes.length, stream: Readable.from([bytes]) }
}
const read = async (path: string, tenant = LOCAL_TENANT) =>
  await text((await createTransferFolder(directory).read(tenant, path)).stream)
const write = (path: string, content: string, tenant = LOCAL_TENANT) =>
  createTransferFolder(directory).write(tenant, path, contentOf(content), never)

describe('the transfer folder', () => {
  it('takes and gives files by relative path and by absolute path inside it', async () => {
    expect(await write('a/b/c', 'über')).toEqual({ bytes: 5 })
    expect(await read(join(directory, 'a/b/c'))).toBe('über')
    expect(await read('./a//b/c')).toBe('über')
    await write(join(directory, 'a/b/c'), 'new')
    expect(await read('a/b/c')).toBe('new')
    expect(readdirSync(join(directory, 'a/b'))).toEqual(['c'])
  })

  it('keeps the tenants apart', async () => {
    await write('mine', 'local')
    await write('mine', 'acme', ACME)
    expect([await read('mine'), await read('mine', ACME)]).toEqual(['local', 'acme'])
    for (const path of ['.tenants/acme/mine', join(directory, '.tenants/acme/mine'), '.tenants']) {
      await expect(read(path), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    await expect(read(join(directory, 'mine'), ACME)).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
  })

  it('follows no link on the way, and replaces one in the place of the file', async () => {
    mkdirSync(directory)
    writeFileSync(join(base, 'secret'), 'secret')
    symlinkSync(base, join(directory, 'out'))
    symlinkSync(join(base, 'secret'), join(directory, 'link'))
    for (const path of [
      'out/secret',
      'link',
      '../secret',
      'a/../../secret',
      join(base, 'secret'),
      '/etc/passwd',
      '',
      '.',
      '/',
    ]) {
      await expect(read(path), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    for (const path of ['out/new', '../new', join(base, 'new')]) {
      await expect(write(path, 'x'), path).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
    }
    await write('link', 'mine')
    expect(readFileSync(join(base, 'secret'), 'utf8')).toBe('secret')
    expect(readFileSync(join(directory, 'link'), 'utf8')).toBe('mine')
    expect(readdirSync(base).sort()).toEqual(['secret', 'transfers'])
  })

  it('says what is wrong with a path', async () => {
    await write('folder/file', 'x')
    await expect(read('none')).rejects.toMatchObject({ code: 'ERR_FILE_NOT_FOUND', details: { field: 'host_path' } })
    await expect(read('folder')).rejects.toMatchObject({ code: 'ERR_NOT_A_FILE' })
    await expect(write('folder', 'x')).rejects.toMatchObject({ code: 'ERR_NOT_A_FILE' })
    await expect(write('folder/file/under', 'x')).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
  })

  it('leaves the old file when the new content breaks off', async () => {
    await write('file', 'old')
    const broken = new Readable({
      read() {
        this.push('half')
        this.destroy(new Error('broke off'))
      },
    })
    await expect(
      createTransferFolder(directory).write(LOCAL_TENANT, 'file', { size: 1, stream: broken }, never),
    ).rejects.toThrow('broke off')
    expect(await read('file')).toBe('old')
    expect(readdirSync(directory)).toEqual(['file'])
  })

  /** Answers with these numbers of free bytes, one after the other, and then with the last. */
  const folderWith = (...room: number[]) =>
    createTransferFolder(directory, async () => (room.length > 1 ? room.shift()! : room[0]!))
  const GIB = 1024 ** 3
  const zeros = (bytes: number, onChunk = (): void => {}) => {
    async function* chunks() {
      for (let left = bytes; left > 0; left -= 1024 ** 2) {
        onChunk()
        yield Buffer.alloc(1024 ** 2)
      }
    }
    return { size: bytes, stream: Readable.from(chunks()) }
  }

  it('leaves the disk some room: what does not fit is not begun, and what fits no longer is taken away', async () => {
    await write('file', 'old')
    let chunks = 0
    const content = zeros(1024 ** 2, () => void chunks++)
    const refusal = { code: 'ERR_DISK_FULL', details: { field: 'host_path' } }
    const none = folderWith(256 * 1024 ** 2).write(LOCAL_TENANT, 'file', content, never)
    await expect(none).rejects.toMatchObject(refusal)
    expect([chunks, content.stream.destroyed]).toEqual([0, true])
    const less = folderWith(GIB, GIB / 8).write(LOCAL_TENANT, 'file', zeros(80 * 1024 ** 2), never)
    await expect(less).rejects.toMatchObject(refusal)
    expect([readdirSync(directory), await read('file')]).toEqual([['file'], 'old'])
    const enough = folderWith(GIB, GIB / 2).write(LOCAL_TENANT, 'file', zeros(80 * 1024 ** 2), never)
    expect(await enough).toEqual({ bytes: 80 * 1024 ** 2 })
  })

  it('keeps the old file when the call is cancelled, even at the very end', async () => {
    await write('file', 'old')
    for (const at of [1, 3]) {
      const cancel = new AbortController()
      let chunks = 0
      const content = zeros(3 * 1024 ** 2, () => void (++chunks === at && cancel.abort()))
      const writing = createTransferFolder(directory).write(LOCAL_TENANT, 'file', content, cancel.signal)
      await expect(writing).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
      expect([readdirSync(directory), await read('file')]).toEqual([['file'], 'old'])
    }
  })
})
