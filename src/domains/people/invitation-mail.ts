/** What an invited person reads. Names in it are those of the inviter and the organisation; nothing that a caller words goes out. */
export const invitationMail = (
  about: Readonly<{ inviter: string; tenant: string; link: string; expiresAt: string }>,
): Readonly<{ subject: string; text: string }> => ({
  subject: 'You are invited to Castellan',
  text: `${about.inviter} invites you to the organisation ${about.tenant} on Castellan.

Open this link to join. It works once, until ${about.expiresAt}:

${about.link}

If you did not expect this, do nothing: without the link nobody joins in your name.
`,
})
