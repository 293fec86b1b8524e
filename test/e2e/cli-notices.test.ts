import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openCliHome } from '../support/cli-home.ts'

/** What a command says on standard error although it succeeds. */
const { home, plain, onState } = openCliHome()

test('a command that makes a new state says so once, and only on standard error', async () => {
  const dataDir = join(home, 'mistyped', 'directory')
  const args = ['call', 'task_list', '--json', '--data-dir', dataDir]
  const first = await plain(args)
  expect([first.code, JSON.parse(first.stdout)]).toEqual([0, expect.objectContaining({ tasks: [] })])
  expect(first.stderr).toBe(
    `There was no state in ${dataDir}, so a new one was created. If you meant another, name it with --data-dir.\n`,
  )
  expect(await plain(args)).toMatchObject({ code: 0, stderr: '' })
})

test('without a state on the disk, nothing is said of one', async () => {
  const { code, stderr } = await plain(['call', 'server_ping', '--mode', 'TEST', '--data-dir', join(home, 'unused')])
  expect([code, stderr]).toEqual([0, ''])
})

test('an export whose file takes nothing names the file', async () => {
  await onState(['call', 'server_ping'])
  const refused = await onState(['export', '/dev/full'])
  expect([refused.code, refused.stderr]).toEqual([
    5,
    'error: Cannot write /dev/full: its disk is full. Free space there, or choose another folder. (ERR_DISK_FULL)\n',
  ])
})

test.each([
  ['CASTELLAN_DATADIR', 'CASTELLAN_DATA_DIR'],
  ['CASTELLAN_PRT', 'CASTELLAN_PORT'],
  ['CASTELLAN_APIKEY', 'CASTELLAN_API_KEY'],
])('the misspelt variable %s is reported by commands that are clients', async (variable, nearest) => {
  await onState(['call', 'server_ping'])
  const environment = { [variable]: '/nowhere' }
  const warning = `castellan warn: The environment variable ${variable} is not known and was ignored. Did you mean ${nearest}?\n`
  for (const command of [['call', 'server_ping'], ['keys', 'list'], ['verify']])
    expect(await onState(command, { environment })).toMatchObject({ code: 0, stderr: warning })
  const away = await plain(['call', 'server_ping', '--url', 'http://127.0.0.1:9'], { environment })
  expect([away.code, away.stderr]).toEqual([6, expect.stringContaining(warning)])
})
