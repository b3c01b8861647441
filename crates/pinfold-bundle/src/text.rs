//! What an expression's text can be, as far as the source says.

use oxc_ast::AstKind;
use oxc_ast::ast::{BinaryOperator, Expression, IdentifierReference};
use oxc_semantic::Semantic;

/// Expressions that are looked at for one value: names can stand for names.
const MOST_STEPS: u32 = 1_000;
/// Values that one expression can have.
const MOST_VALUES: usize = 16;
/// Bytes of a value: code in a string may be long.
const LONGEST: usize = 1 << 20;

/// A possible value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text {
    /// This, as it is.
    Whole(String),
    /// This, and then something that only the running program knows.
    Begins(String),
}

impl Text {
    fn unknown() -> Vec<Self> {
        vec![Self::Begins(String::new())]
    }

    fn followed_by(&self, next: &Self) -> Self {
        match (self, next) {
            (Self::Begins(_), _) => self.clone(),
            (Self::Whole(first), Self::Whole(second) | Self::Begins(second))
                if first.len() + second.len() > LONGEST =>
            {
                Self::Begins(first.clone())
            }
            (Self::Whole(first), Self::Whole(second)) => Self::Whole(format!("{first}{second}")),
            (Self::Whole(first), Self::Begins(second)) => Self::Begins(format!("{first}{second}")),
        }
    }
}

/// Returns every value that the expression can have.
pub(crate) fn values(semantic: &Semantic<'_>, expression: &Expression<'_>) -> Vec<Text> {
    Reader { semantic, steps: 0, depth: 0 }.read(expression)
}

struct Reader<'s, 'a> {
    semantic: &'s Semantic<'a>,
    steps: u32,
    depth: u32,
}

impl Reader<'_, '_> {
    fn read(&mut self, expression: &Expression<'_>) -> Vec<Text> {
        self.steps += 1;
        self.depth += 1;
        let values = if self.steps > MOST_STEPS || self.depth > MOST_STEPS / 4 {
            Text::unknown()
        } else {
            self.read_one(expression.get_inner_expression())
        };
        self.depth -= 1;
        if values.len() > MOST_VALUES { Text::unknown() } else { values }
    }

    fn read_one(&mut self, expression: &Expression<'_>) -> Vec<Text> {
        match expression {
            Expression::StringLiteral(literal) => vec![Text::Whole(literal.value.to_string())],
            Expression::TemplateLiteral(template) => {
                let mut values = vec![Text::Whole(String::new())];
                for (index, quasi) in template.quasis.iter().enumerate() {
                    let Some(cooked) = &quasi.value.cooked else { return Text::unknown() };
                    values = join(&values, &[Text::Whole(cooked.to_string())]);
                    if let Some(expression) = template.expressions.get(index) {
                        values = join(&values, &self.read(expression));
                    }
                }
                values
            }
            Expression::BinaryExpression(binary) if binary.operator == BinaryOperator::Addition => {
                let left = self.read(&binary.left);
                join(&left, &self.read(&binary.right))
            }
            Expression::ConditionalExpression(either) => {
                let mut values = self.read(&either.consequent);
                values.extend(self.read(&either.alternate));
                values
            }
            Expression::LogicalExpression(either) => {
                let mut values = self.read(&either.left);
                values.extend(self.read(&either.right));
                values
            }
            Expression::SequenceExpression(sequence) => {
                sequence.expressions.last().map_or_else(Text::unknown, |last| self.read(last))
            }
            Expression::Identifier(name) => self.read_name(name),
            _ => Text::unknown(),
        }
    }

    /// Returns a name that is given a value once, where it is declared.
    fn read_name(&mut self, name: &IdentifierReference<'_>) -> Vec<Text> {
        let scoping = self.semantic.scoping();
        let reference = name.reference_id.get().map(|id| scoping.get_reference(id));
        let Some(symbol) = reference.and_then(|reference| reference.symbol_id()) else {
            return Text::unknown();
        };
        let declared = self.semantic.symbol_declaration(symbol).kind();
        match declared {
            AstKind::VariableDeclarator(declarator)
                if !scoping.symbol_is_mutated(symbol)
                    && scoping.symbol_redeclarations(symbol).is_empty()
                    && declarator.id.get_identifier_name().is_some() =>
            {
                declarator.init.as_ref().map_or_else(Text::unknown, |init| self.read(init))
            }
            _ => Text::unknown(),
        }
    }
}

fn join(first: &[Text], second: &[Text]) -> Vec<Text> {
    if first.len() * second.len() > MOST_VALUES {
        return Text::unknown();
    }
    let with_each = |first: &Text| second.iter().map(|next| first.followed_by(next)).collect();
    let mut values: Vec<Text> = first.iter().flat_map::<Vec<Text>, _>(with_each).collect();
    values.dedup();
    values
}
