<context intent="resolving billing dispute for customer:priya">

  <belief subject="customer:priya" confidence="0.97">account tier is Professional, annual billing cycle</belief>
  <belief subject="customer:priya" confidence="0.93">primary contact email is priya@example.com</belief>
  <belief subject="customer:priya" confidence="0.89">enrolled in auto-renewal since 2024-03-01</belief>

  <event role="user" time="2m ago">My invoice shows a charge I don't recognise — $299 on 28 Feb.</event>
  <event role="agent" time="2m ago">Looking into that now, Priya. Retrieving your billing history.</event>
  <event role="user" time="5d ago">Can I switch to monthly billing?</event>
  <event role="agent" time="5d ago">Monthly billing is available — I've sent a link to make that change.</event>

  <workflow trigger="billing_dispute_opened" state="open">1. verify charge  2. check renewal date  3. explain or escalate  4. offer billing-cycle change  5. close ticket</workflow>

  <belief subject="policy:billing" confidence="1.0">customers may switch billing cycle within 30 days of renewal with pro-rated refund</belief>

  <action tool="get_invoice" phase="completed">retrieved invoice INV-2026-02-28: $299 annual Professional plan renewal</action>
  <action tool="get_plan_history" phase="completed">plan enrolled 2024-03-01, renewed annually; last renewal 2026-02-28</action>

</context>
