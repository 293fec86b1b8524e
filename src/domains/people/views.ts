import type { Role, TenantId, Tier } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import type {
  Invitation,
  SignInAttempt,
  SignInOutcome,
  User,
  UserGrant,
  UserPasskey,
  UserSession,
  UserTeam,
} from './ports.ts'
import { type InvitationStatus, invitationStatus } from './rules.ts'

/** People as callers see them; times are ISO 8601. */
export type UserView = Readonly<{
  id: string
  email: string
  name: string
  tenant: TenantId
  role: Role
  tier: Tier
  teams: readonly string[]
  created_at: string
  created_by: string
}>

export type ListedUserView = UserView & Readonly<{ team_names: readonly string[]; can_sign_in: boolean }>

export const userView = (user: User, teams: readonly string[]): UserView => ({
  id: user.id,
  email: user.email,
  name: user.name,
  tenant: user.tenant,
  role: user.role,
  tier: user.tier,
  teams,
  created_at: isoTime(user.createdAtMs),
  created_by: user.createdBy,
})

export type TeamView = Readonly<{
  id: string
  name: string
  description: string
  tenant: TenantId
  members: readonly Readonly<{ id: string; email: string }>[]
  created_at: string
  created_by: string
}>

export const teamView = (team: UserTeam, members: TeamView['members']): TeamView => ({
  id: team.id,
  name: team.name,
  description: team.description,
  tenant: team.tenant,
  members,
  created_at: isoTime(team.createdAtMs),
  created_by: team.createdBy,
})

export type InvitationView = Readonly<{
  id: string
  email: string
  tenant: TenantId
  role: Role
  tier: Tier
  teams: readonly string[]
  /** `password` is for an existing user, to choose one. */
  purpose: 'join' | 'password'
  status: InvitationStatus
  created_at: string
  created_by: string
  expires_at: string
}>

export const invitationView = (invitation: Invitation, nowMs: number): InvitationView => ({
  id: invitation.id,
  email: invitation.email,
  tenant: invitation.tenant,
  role: invitation.role,
  tier: invitation.tier,
  teams: invitation.teams,
  purpose: invitation.userId === null ? 'join' : 'password',
  status: invitationStatus(invitation, nowMs),
  created_at: isoTime(invitation.createdAtMs),
  created_by: invitation.createdBy,
  expires_at: isoTime(invitation.expiresAtMs),
})

export type SessionView = Readonly<{
  id: string
  user: string
  /** A sign-in in a browser, a client that the person allowed, or a passkey to sign in with. */
  kind: 'browser' | 'client' | 'passkey'
  name: string
  address: string | null
  created_at: string
  expires_at: string | null
}>

export const sessionView = (session: UserSession, email: string): SessionView => ({
  id: session.id,
  user: email,
  kind: 'browser',
  name: (session.userAgent ?? '').slice(0, 200),
  address: session.address,
  created_at: isoTime(session.createdAtMs),
  expires_at: isoTime(session.expiresAtMs),
})

export const grantView = (grant: UserGrant, email: string): SessionView => ({
  id: grant.id,
  user: email,
  kind: 'client',
  name: grant.clientName.slice(0, 200),
  address: null,
  created_at: isoTime(grant.createdAtMs),
  expires_at: null,
})

export const passkeyView = (passkey: UserPasskey, email: string): SessionView => ({
  id: passkey.id,
  user: email,
  kind: 'passkey',
  name: passkey.name.slice(0, 200),
  address: null,
  created_at: isoTime(passkey.createdAtMs),
  expires_at: null,
})

export type AttemptView = Readonly<{ at: string; email: string; address: string; outcome: SignInOutcome }>

export const attemptView = ({ atMs, email, address, outcome }: SignInAttempt): AttemptView => ({
  at: isoTime(atMs),
  email,
  address,
  outcome,
})
