import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { isLongRun } from '../support/long-run.ts'
import { findPostgresBinaries } from '../support/postgres.ts'
import { info, openWorkspaceApp, sh } from '../support/workspaces.ts'

/** What people really run in workspaces, with the limits that a workspace has when nobody names any. */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'workspaces.store_gb': isLongRun ? 4 : 2 } })
})
afterAll(() => app[Symbol.asyncDispose]())

const write = (path: string, content: string) =>
  app.ask('file_write', { workspace_id: 'w', path: `/workspace/${path}`, content })

/** Needs other users in the workspace, which root gives it. */
it('makes a PostgreSQL cluster as another user, and serves it', async () => {
  await app.ask('workspace_create', { name: 'pg' })
  const bin = findPostgresBinaries()
  const asNobody = (command: string) => sh(app, 'pg', `su nobody -s /bin/sh -c '${command}'`, { timeout_secs: 120 })
  await sh(app, 'pg', 'install -d -o nobody /workspace/pg /workspace/run')
  const made = await asNobody(`${bin}/initdb -A trust --no-sync -D /workspace/pg`)
  expect(made).toMatchObject({ exit_code: 0, stdout: expect.stringContaining('Success.') })
  const options = '-c listen_addresses= -k /workspace/run'
  const server = `${bin}/pg_ctl -w -D /workspace/pg -l /workspace/run/log`
  expect(await asNobody(`${server} -o "${options}" start`)).toMatchObject({ exit_code: 0 })
  const query = 'create table t (n int); insert into t select generate_series(1, 1000); select sum(n) from t'
  const asked = await asNobody(`${bin}/psql -h /workspace/run -d postgres -qAtc "${query}"`)
  expect(asked).toMatchObject({ stdout: '500500\n', stderr: '' })
  expect((await asNobody(`${server} -m fast stop`)).exit_code).toBe(0)
  expect((await sh(app, 'pg', 'stat -c %U /workspace/pg/base')).stdout).toBe('nobody\n')
})

/** Minutes, and it needs the npm registry: only in the long run. */
describe.each(isLongRun ? ['npm'] : [])('a project of %s', () => {
  const project = {
    name: 'shop',
    type: 'module',
    scripts: { test: 'eslint . && tsc --noEmit && vitest run' },
    dependencies: { express: '5.1.0' },
    devDependencies: {
      '@types/express': '5.0.3',
      '@types/node': '24.3.1',
      '@types/supertest': '6.0.3',
      eslint: '9.35.0',
      supertest: '7.1.4',
      typescript: '5.9.2',
      vitest: '3.2.4',
    },
  }
  const options = { strict: true, module: 'nodenext', target: 'es2022', skipLibCheck: true }

  it('is installed from the registry and tested', { timeout: 1_200_000 }, async () => {
    await app.ask('workspace_create', { name: 'w', allowed_domains: ['registry.npmjs.org'] })
    await write('package.json', JSON.stringify(project))
    await write('tsconfig.json', JSON.stringify({ compilerOptions: options }))
    await write('eslint.config.js', 'export default [{ files: ["**/*.js"], rules: { "no-unused-vars": "error" } }]\n')
    await write(
      'app.ts',
      'import express from "express"\nexport const app = express()\napp.get("/price/:n", (req, res) => { res.json({ price: Number(req.params.n) * 3 }) })\n',
    )
    await write(
      'app.test.ts',
      'import request from "supertest"\nimport { expect, test } from "vitest"\nimport { app } from "./app.js"\ntest("prices", async () => { expect((await request(app).get("/price/4")).body).toEqual({ price: 12 }) })\n',
    )
    const run = (command: string) => sh(app, 'w', `cd /workspace && ${command} 2>&1`, { timeout_secs: 590 })
    const installed = await run('npm install --no-audit --no-fund')
    expect(installed, installed.stdout).toMatchObject({ exit_code: 0, stdout: expect.stringContaining('added 2') })
    const tested = await run('npm test')
    expect(tested, tested.stdout).toMatchObject({ exit_code: 0, stdout: expect.stringContaining('1 passed') })
    expect(await info(app, 'w')).toMatchObject({ memory_kills: 0, process_refusals: 0 })
  })
})
