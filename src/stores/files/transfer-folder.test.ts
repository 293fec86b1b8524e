import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LOCAL_TENANT, type TenantId, tenantId } from '../../contract/principal.ts'
import { createTransferFolder } from './transfer-folder.ts'

const ACME = tenantId('acme')
let base = ''
let directory = ''
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'castellan-transfer-'))
  directory = join(base, 'transfers')
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

const MIB = 1024 ** 2
const bounds = {
  reserveBytes: 256 * MIB,
  tenantSharePercent: 80,
  ownerBytesMax: 10 * MIB,
  ownerNamesMax: 10,
  tenantNamesMax: 15,
}
const ownerOf = (tenant: TenantId, owner: string | null = null) => ({ tenant, owner })
const never = new AbortController().signal
const contentOf = (content: string) => {
  const bytes = Buffer.from(content)
  return { size: bytes.length, stream: Readable.from([bytes]) }
}
const read = async (path: string, tenant = LOCAL_TENANT) =>
  await text((await createTransferFolder(directory, bounds).read(tenant, path)).stream)
const write = (path: string, content: string, tenant = LOCAL_TENANT) =>
  createTransferFolder(directory, bounds).write(ownerOf(tenant), path, contentOf(content), never)

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

/** Those half written included. */
const filesThere = (): readonly string[] => [
  ...readdirSync(directory).filter((name) => name !== '.partial'),
  ...readdirSync(join(directory, '.partial')),
]

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

  it('gives an owner, and a tenant, so much and no more, until it is taken away', async () => {
    let free = 276 * MIB
    const folder = createTransferFolder(directory, bounds, async () => free)
    const put = (owner: string | null, path: string, bytes: number, tenant = ACME) =>
      folder.write(ownerOf(tenant, owner), path, zeros(bytes), never)
    await put('key:a', 'one', 6 * MIB)
    await expect(put('key:a', 'two', 5 * MIB)).rejects.toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { field: 'host_path', quota: 'transfer_mb', used: 6 * MIB, wanted: 5 * MIB, limit: 10 * MIB },
    })
    // In its own place a file does not count twice; two at once do not both get the last room.
    await put('key:a', 'one', 7 * MIB)
    const both = await Promise.allSettled([put('key:a', 'two', 3 * MIB), put('key:a', 'three', 3 * MIB)])
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    await put('key:b', 'b', 10 * MIB)
    free = 266 * MIB
    await expect(put('key:c', 'c', 10 * MIB)).rejects.toMatchObject({ details: { quota: 'tenant_share_percent' } })
    await put('key:c', 'c', 10 * MIB, tenantId('other'))
    free = 356 * MIB
    // The person at this machine has no bounds, and what is in another's place is no longer that owner's.
    await put(null, 'b', 15 * MIB)
    await put('key:b', 'b2', MIB)
    rmSync(join(directory, '.tenants/acme/one'))
    await put('key:a', 'four', 7 * MIB)
  })

  it('counts the names of files that hold nothing, and makes no folder for what it refuses', async () => {
    const folder = createTransferFolder(directory, bounds)
    const put = (owner: string, path: string, content = contentOf('')) =>
      folder.write(ownerOf(ACME, owner), path, content, never)
    const there = () => readdirSync(join(directory, '.tenants/acme')).toSorted()
    await put('key:a', 'a/b/c/d')
    await put('key:a', 'a/b/c/d')
    await put('key:a', 'e/f/g/h/i')
    await expect(put('key:a', 'x/y')).rejects.toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'transfer_names', used: 9, wanted: 2, limit: 10 },
    })
    const both = await Promise.allSettled([put('key:b', 'k/l/m'), put('key:b', 'n/o/p/q')])
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('x')
        throw new Error('broken off')
      })(),
    )
    const other = folder.write(ownerOf(tenantId('other'), 'key:c'), 'new/deep/file', { size: 1, stream: broken }, never)
    await expect(other).rejects.toThrow('broken off')
    expect(readdirSync(join(directory, '.tenants/other'))).toEqual([])
    expect(there().filter((name) => name !== 'k' && name !== 'n')).toEqual(['a', 'e'])
    expect(there()).toHaveLength(3)
    rmSync(join(directory, '.tenants/acme/a'), { recursive: true })
    await put('key:a', 'x/y')
  })

  it('takes no more of a file than it was given room for', async () => {
    const folder = createTransferFolder(directory, bounds)
    const growing = { ...zeros(12 * MIB), size: MIB }
    await expect(folder.write(ownerOf(ACME, 'key:a'), 'grows', growing, never)).rejects.toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
    })
    expect(readdirSync(join(directory, '.partial'))).toEqual([])
  })

  it('removes what a process that was killed had begun, and nothing of one that lives', async () => {
    const living = `${process.ppid}-ab`
    mkdirSync(join(directory, '.partial'), { recursive: true })
    for (const name of [`${2 ** 22 + 1}-cd`, living]) writeFileSync(join(directory, '.partial', name), 'half')
    await write('file', 'x')
    expect(readdirSync(join(directory, '.partial'))).toEqual([living])
    await expect(read('.partial/x')).rejects.toMatchObject({ code: 'ERR_FILE_REFUSED' })
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
      createTransferFolder(directory, bounds).write(ownerOf(LOCAL_TENANT), 'file', { size: 1, stream: broken }, never),
    ).rejects.toThrow('broke off')
    expect(await read('file')).toBe('old')
    expect(filesThere()).toEqual(['file'])
  })

  /** Answers with these numbers of free bytes, one after the other, and then with the last. */
  const folderWith = (...budget: number[]) =>
    createTransferFolder(directory, bounds, async () => (budget.length > 1 ? budget.shift()! : budget[0]!))
  it('leaves the disk some room: what does not fit is not begun, and what fits no longer is taken away', async () => {
    await write('file', 'old')
    let chunks = 0
    const content = zeros(1024 ** 2, () => void chunks++)
    const refusal = { code: 'ERR_DISK_FULL', details: { field: 'host_path' } }
    const none = folderWith(256 * 1024 ** 2).write(ownerOf(LOCAL_TENANT), 'file', content, never)
    await expect(none).rejects.toMatchObject(refusal)
    expect([chunks, content.stream.destroyed]).toEqual([0, true])
    const less = folderWith(GIB, GIB / 8).write(ownerOf(LOCAL_TENANT), 'file', zeros(80 * 1024 ** 2), never)
    await expect(less).rejects.toMatchObject(refusal)
    expect([filesThere(), await read('file')]).toEqual([['file'], 'old'])
    const enough = folderWith(GIB, GIB / 2).write(ownerOf(LOCAL_TENANT), 'file', zeros(80 * 1024 ** 2), never)
    expect(await enough).toEqual({ bytes: 80 * 1024 ** 2 })
  })

  it('keeps the old file when the call is cancelled, even at the very end', async () => {
    await write('file', 'old')
    for (const at of [1, 3]) {
      const cancel = new AbortController()
      let chunks = 0
      const content = zeros(3 * 1024 ** 2, () => void (++chunks === at && cancel.abort()))
      const writing = createTransferFolder(directory, bounds).write(
        ownerOf(LOCAL_TENANT),
        'file',
        content,
        cancel.signal,
      )
      await expect(writing).rejects.toMatchObject({ code: 'ERR_CANCELLED' })
      expect([filesThere(), await read('file')]).toEqual([['file'], 'old'])
    }
  })
})
