//! Where a value goes from where it stands.

use oxc_ast::AstKind;
use oxc_ast::ast::{
    AssignmentTarget, AssignmentTargetMaybeDefault, AssignmentTargetProperty, BindingPattern,
    BindingPatternKind, IdentifierReference, ObjectAssignmentTarget, ObjectPattern,
};
use oxc_semantic::NodeId;
use oxc_span::{GetSpan as _, Span};

use super::calls::Applied;
use super::{Kind, Trace};
use crate::finding::Spot;
use crate::text::Text;

impl Trace<'_, '_> {
    /// Looks at what is done with a value.
    pub(super) fn flow(&mut self, node: NodeId, kind: Kind) {
        let nodes = self.semantic.nodes();
        let (parent, span) = (nodes.parent_id(node), nodes.kind(node).span());
        if kind == Kind::Redirects {
            let what = format!("{}, after which a name says nothing", kind.word());
            return self.findings.spots.push(Spot::unclear(span.start, what));
        }
        match nodes.kind(parent) {
            AstKind::CallExpression(call) if call.callee.span() == span => {
                self.call(kind, parent, &call.arguments);
            }
            AstKind::NewExpression(call) if call.callee.span() == span => {
                self.call(kind, parent, &call.arguments);
            }
            AstKind::StaticMemberExpression(member) => {
                let name = vec![Text::Whole(member.property.name.to_string())];
                self.member(kind, parent, span, name);
            }
            AstKind::ComputedMemberExpression(member) => {
                if member.object.span() == span {
                    let names = self.values(&member.expression);
                    self.member(kind, parent, span, names);
                }
            }
            AstKind::ConditionalExpression(either) if either.test.span() == span => {}
            AstKind::SequenceExpression(sequence)
                if sequence.expressions.last().is_none_or(|last| last.span() != span) => {}
            AstKind::ConditionalExpression(_)
            | AstKind::SequenceExpression(_)
            | AstKind::LogicalExpression(_)
            | AstKind::ParenthesizedExpression(_)
            | AstKind::ChainExpression(_)
            | AstKind::AwaitExpression(_)
            | AstKind::TSAsExpression(_)
            | AstKind::TSSatisfiesExpression(_)
            | AstKind::TSTypeAssertion(_)
            | AstKind::TSNonNullExpression(_)
            | AstKind::TSInstantiationExpression(_) => self.follow(parent, kind),
            AstKind::VariableDeclarator(declarator) => {
                self.bind_pattern(&declarator.id, kind, span);
                let statement = nodes.parent_id(nodes.parent_id(parent));
                if matches!(nodes.kind(statement), AstKind::ExportNamedDeclaration(_)) {
                    self.handed_on(kind, span);
                }
            }
            AstKind::AssignmentPattern(pattern) => self.bind_pattern(&pattern.left, kind, span),
            AstKind::AssignmentExpression(assignment) if assignment.right.span() == span => {
                self.assign(&assignment.left, kind, span);
                self.follow(parent, kind);
            }
            // What an arrow function without braces gives.
            AstKind::ExpressionStatement(_) if self.is_result(parent) => {
                self.handed_on(kind, span);
            }
            AstKind::TSQualifiedName(_) => {
                let mut above = nodes.ancestor_kinds(parent);
                if above.any(|kind| matches!(kind, AstKind::TSImportEqualsDeclaration(_))) {
                    let what = format!("a member of {}, under another name", kind.word());
                    self.findings.spots.push(Spot::unclear(span.start, what));
                }
            }
            AstKind::Class(_) if kind == Kind::MakesFunction => {
                let what = "a class of functions, which are made of code in strings";
                self.findings.spots.push(Spot::unclear(span.start, what));
            }
            AstKind::AssignmentExpression(_)
            | AstKind::UnaryExpression(_)
            | AstKind::BinaryExpression(_)
            | AstKind::ExpressionStatement(_)
            | AstKind::IfStatement(_)
            | AstKind::TSTypeQuery(_) => {}
            _ => self.handed_on(kind, span),
        }
    }

    fn is_result(&self, statement: NodeId) -> bool {
        let nodes = self.semantic.nodes();
        let function = nodes.parent_id(nodes.parent_id(statement));
        matches!(nodes.kind(function), AstKind::ArrowFunctionExpression(arrow) if arrow.expression)
    }

    /// It goes where nobody follows it.
    pub(super) fn handed_on(&mut self, kind: Kind, span: Span) {
        if kind.is_held() {
            let what = format!("{}, handed on, so that its use cannot be determined", kind.word());
            self.findings.spots.push(Spot::unclear(span.start, what));
        }
    }

    fn member(&mut self, kind: Kind, member: NodeId, span: Span, names: Vec<Text>) {
        for name in names {
            match name {
                Text::Whole(name) => match (Applied::of(&name), kind.member(&name)) {
                    (Some(how), _) if kind.is_called() => self.applied(kind, member, how),
                    (_, Some(kind)) => self.follow(member, kind),
                    _ => {}
                },
                Text::Begins(_) => self.unknown_member(kind, span),
            }
        }
    }

    fn unknown_member(&mut self, kind: Kind, span: Span) {
        if kind.hides_members() {
            let what = format!("a member of {} whose name is made at run time", kind.word());
            self.findings.spots.push(Spot::unclear(span.start, what));
        }
    }

    fn bind_pattern(&mut self, pattern: &BindingPattern<'_>, kind: Kind, span: Span) {
        match &pattern.kind {
            BindingPatternKind::BindingIdentifier(name) => self.bind(name.symbol_id(), kind),
            BindingPatternKind::ObjectPattern(object) => {
                self.bind_properties(object, Some((kind, span)));
            }
            BindingPatternKind::AssignmentPattern(pattern) => {
                self.bind_pattern(&pattern.left, kind, span);
            }
            BindingPatternKind::ArrayPattern(_) => self.handed_on(kind, span),
        }
    }

    /// Takes an object's members by name, of which nothing is known or this.
    pub(super) fn bind_properties(&mut self, object: &ObjectPattern<'_>, of: Option<(Kind, Span)>) {
        for property in &object.properties {
            for key in self.key(&property.key) {
                if let Some(kind) = self.taken(&key, of) {
                    self.bind_pattern(&property.value, kind, property.span);
                }
            }
        }
        if let (Some((kind, span)), Some(rest)) = (of, &object.rest) {
            self.bind_pattern(&rest.argument, kind, span);
        }
    }

    /// Does the same by an assignment.
    pub(super) fn assign_properties(
        &mut self,
        target: &ObjectAssignmentTarget<'_>,
        of: Option<(Kind, Span)>,
    ) {
        for property in &target.properties {
            match property {
                AssignmentTargetProperty::AssignmentTargetPropertyIdentifier(one) => {
                    let key = Text::Whole(one.binding.name.to_string());
                    if let Some(kind) = self.taken(&key, of) {
                        self.assign_name(&one.binding, kind, one.span);
                    }
                }
                AssignmentTargetProperty::AssignmentTargetPropertyProperty(one) => {
                    for key in self.key(&one.name) {
                        let Some(kind) = self.taken(&key, of) else { continue };
                        let target = match &one.binding {
                            AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(with) => {
                                Some(&with.binding)
                            }
                            other => other.as_assignment_target(),
                        };
                        if let Some(target) = target {
                            self.assign(target, kind, one.span);
                        }
                    }
                }
            }
        }
    }

    fn taken(&mut self, key: &Text, of: Option<(Kind, Span)>) -> Option<Kind> {
        match (key, of) {
            (Text::Whole(name), Some((kind, _))) => kind.member(name),
            (Text::Whole(name), None) => Kind::of_any_member(name),
            (Text::Begins(_), Some((kind, span))) => {
                self.unknown_member(kind, span);
                None
            }
            (Text::Begins(_), None) => None,
        }
    }

    fn assign(&mut self, target: &AssignmentTarget<'_>, kind: Kind, span: Span) {
        match target {
            AssignmentTarget::AssignmentTargetIdentifier(name) => {
                self.assign_name(name, kind, span);
            }
            AssignmentTarget::ObjectAssignmentTarget(object) => {
                self.assign_properties(object, Some((kind, span)));
            }
            _ => self.handed_on(kind, span),
        }
    }

    fn assign_name(&mut self, name: &IdentifierReference<'_>, kind: Kind, span: Span) {
        let scoping = self.semantic.scoping();
        let reference = name.reference_id.get().map(|id| scoping.get_reference(id));
        match reference.and_then(|reference| reference.symbol_id()) {
            Some(symbol) => self.bind(symbol, kind),
            // A name of the whole program: other files have it too.
            None => self.handed_on(kind, span),
        }
    }
}
