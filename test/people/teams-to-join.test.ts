import { expect, test } from 'vitest'
import { permissionsOfRole } from '../../src/contract/permissions.ts'
import { openTestApp } from '../support/app.ts'

test('nobody is put into a team by a caller that could not change the team', async () => {
  await using app = await openTestApp()
  await app.ask('user_team_create', { name: 'design' })
  const ofMembers = [...permissionsOfRole('member')].filter((permission) => !permission.endsWith(':enable'))
  const scopes = [...ofMembers, 'member:create', 'invitation:create'] as const
  const inviter = await app.keyCaller({ role: 'admin', tier: 'operator', scopes })
  const person = { role: 'member', tier: 'user', teams: ['design'] }
  for (const tool of ['invitation_create', 'user_create']) {
    const refusal = await app.refusal(tool, { email: `${tool}@example.com`, ...person }, inviter)
    expect(refusal).toMatchObject({ code: 'ERR_PERMISSION_DENIED', details: { field: 'teams' } })
    await app.ask(tool, { email: `${tool}@example.com`, ...person })
  }
})
