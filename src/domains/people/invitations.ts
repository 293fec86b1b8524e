import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { sha256Bytes } from '../../kernel/hash.ts'
import { randomId } from '../../kernel/random.ts'
import type { Invitation } from './ports.ts'
import type { Rights } from './rights.ts'
import { peopleTenant } from './rules.ts'
import type { InTenant, NewPerson, PeopleDeps, PeopleReading, PeopleWriting } from './service.ts'
import { type InvitationView, invitationView } from './views.ts'

type NewInvitation = NewPerson & Readonly<{ expires_in_hours?: number | undefined }>
/** `off`: no mail server is configured. */
type MailOutcome = 'sent' | 'failed' | 'off'

/** One-time links for new people: created, mailed, listed and cancelled. */
export type InvitationMethods = Readonly<{
  /** Mails the link if mail is configured. It takes long, so it happens before the transaction, after all checks. */
  mailInvitation(call: PeopleReading & Pick<Call, 'origin' | 'warn'>, input: NewInvitation): Promise<void>
  /** The answer contains the link, whether it was mailed or not. */
  invite(
    call: PeopleWriting,
    input: NewInvitation,
  ): Promise<InvitationView & Readonly<{ link: string; mail: MailOutcome }>>
  cancelInvitation(call: PeopleWriting, input: InTenant & Readonly<{ invitation: string }>): Promise<InvitationView>
}>

type Links = Readonly<{
  newLink(
    call: PeopleWriting,
    person: Pick<Invitation, 'tenant' | 'email' | 'role' | 'tier' | 'teams' | 'userId'>,
    lifeMs: number,
  ): Promise<Readonly<{ invitation: Invitation; link: string }>>
}>

type Helpers = Readonly<{
  rights: Rights
  requireNewMember(read: ReadTx, tenant: TenantId, email: string): Promise<string>
  teamsToJoin(call: PeopleReading, tenant: TenantId, named: readonly string[]): Promise<string[]>
}>

export const hashOfLink = (token: string): string => sha256Bytes(token).toString('hex')

export function createInvitations(deps: PeopleDeps, helpers: Helpers): InvitationMethods & Links {
  const { store, random } = deps
  const mailed = new WeakMap<object, Readonly<{ token: string; outcome: MailOutcome }>>()
  const newToken = (): string => random.bytes(32).toString('base64url')
  const linkOf = (call: Pick<Call, 'origin'>, token: string): string =>
    `${call.origin ?? deps.linkAddress().origin}/invitation/${token}`

  async function newLink(
    call: PeopleWriting,
    person: Parameters<Links['newLink']>[1],
    lifeMs: number,
    token = newToken(),
  ): ReturnType<Links['newLink']> {
    const invitation: Invitation = {
      ...person,
      id: randomId(random, 'inv'),
      tokenHash: hashOfLink(token),
      createdBy: call.principal.actor,
      createdAtMs: call.nowMs,
      expiresAtMs: call.nowMs + lifeMs,
      acceptedAtMs: null,
      cancelledAtMs: null,
    }
    await store.insertInvitation(call.write, invitation)
    const { warning } = deps.linkAddress()
    if (call.origin === undefined && warning !== undefined) call.warn(warning)
    return { invitation, link: linkOf(call, token) }
  }

  async function personToInvite(call: PeopleReading, input: NewInvitation, write?: WriteTx) {
    const { principal, read } = call
    const tenant = peopleTenant(principal, input.tenant)
    const { role, tier } = await helpers.rights.toGive(call, tenant, input, write)
    const email = await helpers.requireNewMember(read, tenant, input.email)
    const teams = await helpers.teamsToJoin(call, tenant, input.teams ?? [])
    return { tenant, email, role, tier, teams, userId: null }
  }

  return {
    newLink: (call, person, lifeMs) => newLink(call, person, lifeMs),

    async mailInvitation(call, input) {
      if (deps.mailer === undefined) return
      const { email, tenant } = await personToInvite(call, input)
      const token = newToken()
      const mail = invitationMail({
        inviter: call.principal.actor,
        tenant,
        link: linkOf(call, token),
        expiresAt: isoTime(call.nowMs + lifeOf(input)),
      })
      const isSent = await (await deps.mailer()).send({ to: email, ...mail })
      mailed.set(input, { token, outcome: isSent ? 'sent' : 'failed' })
      if (!isSent) call.warn('The mail was not sent: the mail server did not accept it. Send the link yourself.')
    },

    async invite(call, input) {
      const { token, outcome } = mailed.get(input) ?? { token: newToken(), outcome: 'off' as const }
      const person = await personToInvite(call, input, call.write)
      const others = await store.listOpenInvitations(call.read, person.tenant, person.email, call.nowMs)
      const { invitation, link } = await newLink(call, person, lifeOf(input), token)
      if (others.length > 0) call.warn(stillOpen(others))
      call.record(invitationEffect('invitation_created', invitation))
      return { ...invitationView(invitation, call.nowMs), link, mail: outcome }
    },

    async cancelInvitation(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const found = await store.findInvitation(call.read, tenant, input.invitation)
      if (found === undefined) {
        const message =
          'invitation: there is no invitation with this id; list them with castellan invite list (invitation_list)'
        throw new AppError('ERR_NOT_FOUND', message, { invitation: input.invitation.slice(0, 128) })
      }
      await helpers.rights.requireOver(call, found)
      const isCancelled = await store.cancelInvitation(call.write, tenant, found.id, call.nowMs)
      if (isCancelled) call.record(invitationEffect('invitation_cancelled', found))
      return invitationView(isCancelled ? { ...found, cancelledAtMs: call.nowMs } : found, call.nowMs)
    },
  }
}

function stillOpen(others: readonly Invitation[]): string {
  const ids = others.slice(0, 5).map(({ id }) => id)
  return `Earlier links for this address still work: ${ids.join(', ')}. To cancel one: castellan invite cancel ID (invitation_cancel).`
}

const lifeOf = ({ expires_in_hours: hours }: NewInvitation): number =>
  hours === undefined ? limits.invitationMs : hours * 3_600_000

export const invitationEffect = (
  kind: string,
  invitation: Invitation,
  more: EffectRecord['body'] = {},
): EffectRecord => ({
  kind,
  body: {
    id: invitation.id,
    tenant: invitation.tenant,
    email: invitation.email,
    role: invitation.role,
    tier: invitation.tier,
    teams: [...invitation.teams],
    expires_at: isoTime(invitation.expiresAtMs),
    ...more,
  },
})

/** The text for an invited person. It contains only the names of the inviter and the organisation; a caller cannot word it. */
const invitationMail = (
  about: Readonly<{ inviter: string; tenant: string; link: string; expiresAt: string }>,
): Readonly<{ subject: string; text: string }> => ({
  subject: 'You are invited to Castellan',
  text: `${about.inviter} invites you to the organisation ${about.tenant} on Castellan.

Open this link to join. It works once, until ${about.expiresAt}:

${about.link}

If you did not expect this, do nothing: without the link nobody joins in your name.
`,
})
